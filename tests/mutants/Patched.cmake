# Planted bugs as patches: tests/mutants/NAME.patch takes one line of a law back, in a copy of
# the sources that it names, and a program that is linked with that copy must fail.

# kvtier_patched(<name> PROGRAM <target> [RUN <target>] [ARGS <arguments>...]): PROGRAM, linked
# with the patched copy of its sources, must fail with ARGS. With RUN it is that other program
# that must fail, while the patched one stands in for PROGRAM among the programs of
# KVTIER_BIN_DIR. <name>.patch changes .cc files only: a changed header would be compiled in
# one place and not in another.
function(kvtier_patched name)
  cmake_parse_arguments(ARG "" "PROGRAM;RUN" "ARGS" ${ARGN})
  set(patch ${CMAKE_CURRENT_SOURCE_DIR}/${name}.patch)
  set(copy ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(target mutant_${name})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${patch})
  file(STRINGS ${patch} changed REGEX "^\\+\\+\\+ b/")
  set(originals)
  set(sources)
  foreach(line ${changed})
    string(REGEX REPLACE "^\\+\\+\\+ b/([^\t ]*).*" "\\1" file "${line}")
    if(NOT file MATCHES "\\.cc$")
      message(FATAL_ERROR "${patch} changes ${file}, which is no .cc file")
    endif()
    list(APPEND originals ${PROJECT_SOURCE_DIR}/${file})
    list(APPEND sources ${copy}/${file})
  endforeach()
  add_custom_command(OUTPUT ${sources}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/apply ${patch} ${PROJECT_SOURCE_DIR} ${copy}
    DEPENDS ${patch} ${originals} ${CMAKE_CURRENT_SOURCE_DIR}/apply
    COMMENT "Planting the bug of ${name}.patch" VERBATIM)
  # What a patch leaves unused is no news.
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -Wno-error)

  # A source of the program itself is replaced; one of a library comes before the library.
  get_target_property(own ${ARG_PROGRAM} SOURCES)
  get_target_property(folder ${ARG_PROGRAM} SOURCE_DIR)
  get_target_property(libraries ${ARG_PROGRAM} LINK_LIBRARIES)
  set(objects $<TARGET_OBJECTS:${ARG_PROGRAM}>)
  foreach(original ${originals})
    cmake_path(RELATIVE_PATH original BASE_DIRECTORY ${folder} OUTPUT_VARIABLE relative)
    if(relative IN_LIST own)
      set(objects $<FILTER:${objects},EXCLUDE,/${relative}\\.o$>)
    endif()
  endforeach()
  set(main_objects)
  foreach(source ${own})
    if(source MATCHES "TARGET_OBJECTS")
      list(APPEND main_objects ${source})
    endif()
  endforeach()
  kvtier_program(${target} SOURCES ${sources} ${objects} ${main_objects} LINK ${libraries})
  set(command $<TARGET_FILE:${target}>)
  if(ARG_RUN)
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME ${ARG_PROGRAM} RUNTIME_OUTPUT_DIRECTORY ${copy}/bin)
    set(command ${CMAKE_CURRENT_SOURCE_DIR}/stand_in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${copy}/bin
      ${ARG_PROGRAM} $<TARGET_FILE:${ARG_RUN}>)
  endif()
  add_test(NAME ${target}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/expect caught ${command} ${ARG_ARGS})
  set_tests_properties(${target} PROPERTIES LABELS mutants TIMEOUT 300)
endfunction()
