// Handles that free themselves, and errors as exceptions (C++17). Sends a job of two windows to
// itself, and prints what arrived: windows.cpp with -latp.

#include <atp.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace {

void check(atp_status status) {
    if (status < ATP_OK) {
        throw std::runtime_error(atp_last_error());
    }
}

template <typename Handle, atp_status (*Free)(Handle)> class Owned {
  public:
    Owned() = default;
    Owned(Owned &&other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
    Owned &operator=(Owned &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Owned() {
        if (handle_.handle != 0) {
            Free(handle_);
        }
    }
    Handle *out() { return &handle_; }
    Handle operator*() const { return handle_; }

  private:
    Handle handle_{};
};

using Job = Owned<atp_job, atp_job_free>;
using Receiver = Owned<atp_receiver, atp_receiver_close>;

struct Event : atp_event {
    Event() : atp_event{} { struct_size = sizeof(atp_event); }
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;
    ~Event() { atp_event_free(this); }
};

std::string address_of(const Receiver &receiver) {
    atp_address address{};
    char text[64];
    check(atp_receiver_address(*receiver, &address));
    check(atp_address_text(&address, text, sizeof text));
    return text;
}

void run() {
    Receiver receiver;
    check(atp_receiver_bind("127.0.0.1:0", nullptr, receiver.out()));
    atp_job_options options;
    check(atp_job_options_init(&options, sizeof options));
    options.msr = 0.9;
    Job job;
    check(atp_job_connect(address_of(receiver).c_str(), &options, job.out()));
    for (int window = 0; window < 2; window++) {
        for (int i = 0; i < 10; i++) {
            std::string_view message = "a message";
            check(atp_job_send(*job, 0, message.data(), message.size(), nullptr));
        }
        check(atp_job_end_window(*job, nullptr));
    }
    check(atp_job_finish(*job, nullptr));

    for (std::uint32_t kind = 0, messages = 0; kind != ATP_EVENT_FINISHED;) {
        Event event;
        check(atp_receiver_recv(*receiver, &event, -1));
        kind = event.kind;
        messages += kind == ATP_EVENT_MESSAGE;
        if (kind == ATP_EVENT_FINISHED) {
            std::printf("%u messages arrived\n", messages);
        }
    }
}

} // namespace

int main() {
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
