// Another libcuda.so.1, which must not be opened.
#define FOREIGN extern "C" __attribute__((visibility("default"))) int

FOREIGN foreign_driver() {
  return 0;
}
FOREIGN cuInit(unsigned) {
  return 999;
}
