// Holds nothing: the linker reads this object's SONAME (see CMakeLists.txt), nothing loads it.
extern "C" __attribute__((visibility("default"))) const char sluice_soname_marker = 1;
