// A libucp.so.0 that is too old to be used.
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 11;
  *release = 2;
}
