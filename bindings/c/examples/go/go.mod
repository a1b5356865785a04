module atp-example

go 1.19
