# For tests that need other people's programs: sourced, not run.

# fetch_debs WORK SUITE COMPONENTS PACKAGE...: Debian's packages, unpacked in WORK/root; nothing is installed. They are
# fetched once: WORK/done says so.
fetch_debs() {
  local work=$1 suite=$2 components=$3
  shift 3
  [ -e "$work/done" ] && return 0
  mkdir -p "$work"/apt/{lists/partial,cache/archives/partial} "$work/debs" "$work/root"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite $components" \
    >"$work/apt/sources.list"
  touch "$work/apt/status"  # as on a machine without packages
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/apt/lists" -o "Dir::State::status=$work/apt/status" -o "Dir::Cache=$work/apt/cache"
    -o "APT::Sandbox::User=$(id -un)") deb
  "${apt[@]}" update
  (cd "$work/debs" && "${apt[@]}" download "$@")
  for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
  touch "$work/done"
}
