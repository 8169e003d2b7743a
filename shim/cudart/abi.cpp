// Compiled into each libcudart with its version. The binder (shim/bind) reads it, too: another
// vendor's libcudart has no such symbol.
extern "C" __attribute__((visibility("default"))) const int sluice_cudart_abi = SLUICE_CUDART_MAJOR;
