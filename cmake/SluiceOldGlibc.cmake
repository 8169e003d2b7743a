# Client libraries run on glibc 2.28 wherever they were built (architecture D13): the shared libraries of the including
# folder and below are linked to stand-ins without newer symbols (old_glibc.py), and to a static C++ library.
# Each of them calls sluice_old_glibc(target), which adds replacements for what older systems lack; one that forgets it
# does not link.
if(SLUICE_SANITIZE)
  function(sluice_old_glibc target)
  endfunction()
  return()
endif()

find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(_old_glibc ${CMAKE_BINARY_DIR}/old_glibc)
set(_generator ${CMAKE_CURRENT_LIST_DIR}/old_glibc.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_generator})
if(NOT EXISTS ${_old_glibc}/done OR ${_generator} IS_NEWER_THAN ${_old_glibc}/done)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${_generator} ${_old_glibc} ${CMAKE_C_COMPILER} COMMAND_ERROR_IS_FATAL ANY)
  file(TOUCH ${_old_glibc}/done)
endif()

function(sluice_old_glibc target)
  target_link_libraries(${target} PRIVATE sluice_old_glibc_objects)
endfunction()

# On systems before 2.34, dlopen and pthread_create are in libraries of their own.
set(_moved)
foreach(library libdl.so.2 libpthread.so.0)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${library} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(APPEND _moved ",${path}")
endforeach()
add_link_options(-nodefaultlibs)
# Behind everything else on the link line, hence not a library of a target.
string(CONCAT CMAKE_CXX_STANDARD_LIBRARIES
  "-Wl,--as-needed,--start-group,-l:libstdc++.a,-lgcc,-lgcc_eh,-l:libc_nonshared.a,${_old_glibc}/libc.so.6,${_old_glibc}/libm.so.6"
  ",${_old_glibc}/ld-linux-x86-64.so.2,--end-group -Wl,--no-as-needed${_moved}")
