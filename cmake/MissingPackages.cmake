# Says which Debian packages the build lacks and which command installs them, before anything fails
# for want of one: `pip install .` shows it. Only warns, since a compiler or CMake may come from
# elsewhere. Says nothing where there is no dpkg.
find_program(KVTIER_DPKG_QUERY dpkg-query)
if(KVTIER_DPKG_QUERY)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/install-packages --missing build python
    OUTPUT_VARIABLE missing OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(missing)
    string(REPLACE "\n" " " missing "${missing}")
    message(WARNING "kvtier: not installed: ${missing}. As root or with sudo, "
      "`scripts/install-packages build python` installs them.")
  endif()
endif()
