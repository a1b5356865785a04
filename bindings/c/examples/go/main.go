// Sends ten messages to itself over libatp, and prints what arrived. cgo finds the library by
// pkg-config: PKG_CONFIG_PATH=PREFIX/lib/pkgconfig go run .
package main

// #cgo pkg-config: libatp
// #include <atp.h>
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// call runs a function of libatp. Its error text belongs to the thread. cgo has enumerations as
// int32.
func call(function func() int32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if function() < C.ATP_OK {
		return errors.New(C.GoString(C.atp_last_error()))
	}
	return nil
}

func run() error {
	local := C.CString("127.0.0.1:0")
	defer C.free(unsafe.Pointer(local))
	var receiver C.atp_receiver
	if err := call(func() int32 { return C.atp_receiver_bind(local, nil, &receiver) }); err != nil {
		return err
	}
	defer C.atp_receiver_close(receiver)

	var address C.atp_address
	var peer [64]C.char
	C.atp_receiver_address(receiver, &address)
	C.atp_address_text(&address, &peer[0], C.size_t(len(peer)))
	var job C.atp_job
	if err := call(func() int32 { return C.atp_job_connect(&peer[0], nil, &job) }); err != nil {
		return err
	}
	defer C.atp_job_free(job)
	message := []byte("a message")
	for i := 0; i < 10; i++ {
		err := call(func() int32 {
			return C.atp_job_send(job, 0, unsafe.Pointer(&message[0]), C.size_t(len(message)), nil)
		})
		if err != nil {
			return err
		}
	}
	if err := call(func() int32 { return C.atp_job_finish(job, nil) }); err != nil {
		return err
	}

	for messages := 0; ; {
		var event C.atp_event
		event.struct_size = C.size_t(unsafe.Sizeof(event))
		if err := call(func() int32 { return C.atp_receiver_recv(receiver, &event, -1) }); err != nil {
			return err
		}
		if event.kind == C.ATP_EVENT_FINISHED {
			fmt.Println(messages, "messages arrived")
			return call(func() int32 { return C.atp_event_free(&event) })
		}
		if event.kind == C.ATP_EVENT_MESSAGE {
			messages++
		}
		if err := call(func() int32 { return C.atp_event_free(&event) }); err != nil {
			return err
		}
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
