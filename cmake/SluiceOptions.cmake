# Warnings, sanitizers and the compiler cache, for every target of the project.
set(SLUICE_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Werror)
# Unique symbols of inline statics would be shared with the application across our libraries.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
add_link_options(-Wl,-z,defs -Wl,--as-needed)

if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  if(SLUICE_SANITIZE MATCHES undefined)
    # CUDA's enums come from C, where any int is a value; programs pass numbers that have no name yet.
    add_compile_options(-fno-sanitize=enum)
  endif()
  # With instrumentation in between, g++ 12 no longer sees what was initialised.
  add_compile_options(-Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
  # A sanitized shared object leaves the runtime's symbols to the executable.
  add_link_options(-Wl,-z,undefs)
endif()

# -O3 makes g++ 12 see overflows in the standard library that are not there, and buys nothing measurable here.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
