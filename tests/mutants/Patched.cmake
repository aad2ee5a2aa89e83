# Planted bugs as patches: tests/mutants/NAME.patch breaks one rule in a copy of the sources that it names, and a
# program that is linked with that copy must fail.

# kvtier_expect(caught|holds <name> <command>...): one CTest entry, which passes when the command
# fails, or holds.
function(kvtier_expect expectation name)
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/expect ${expectation} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS mutants TIMEOUT 300)
endfunction()

# kvtier_patched(<patch> PROGRAM <target> [AS <name>] [RUN <target>] [EXPECT holds]
#                [ARGS <arguments>...]): mutant_<name>, which is PROGRAM linked with the patched copy
# of its sources, must fail with ARGS. With RUN it is that other program that must fail, while the
# patched one stands in for PROGRAM among the programs of KVTIER_BIN_DIR. <patch>.patch changes .cc
# files only: a changed header would be compiled in one place and not in another.
function(kvtier_patched name)
  cmake_parse_arguments(ARG "" "AS;EXPECT;PROGRAM;RUN" "ARGS" ${ARGN})
  set(patch ${CMAKE_CURRENT_SOURCE_DIR}/${name}.patch)
  if(ARG_AS)
    set(name ${ARG_AS})
  endif()
  if(NOT ARG_EXPECT)
    set(ARG_EXPECT caught)
  endif()
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
  # Code that a patch leaves unused is no error, and a program that runs once needs no optimising.
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-Wno-error;-O0")

  # A source of the program itself is replaced; one of a library comes before the library.
  get_target_property(own ${ARG_PROGRAM} SOURCES)
  get_target_property(folder ${ARG_PROGRAM} SOURCE_DIR)
  get_target_property(libraries ${ARG_PROGRAM} LINK_LIBRARIES)
  get_target_property(definitions ${ARG_PROGRAM} COMPILE_DEFINITIONS)
  set(objects $<TARGET_OBJECTS:${ARG_PROGRAM}>)
  foreach(original ${originals})
    cmake_path(RELATIVE_PATH original BASE_DIRECTORY ${folder} OUTPUT_VARIABLE relative)
    if(relative IN_LIST own OR original IN_LIST own)
      cmake_path(GET original FILENAME file)
      set(objects $<FILTER:${objects},EXCLUDE,/${file}\\.o$>)
    endif()
  endforeach()
  set(main_objects)
  foreach(source ${own})
    if(source MATCHES "TARGET_OBJECTS")
      list(APPEND main_objects ${source})
    endif()
  endforeach()
  kvtier_program(${target} SOURCES ${sources} ${objects} ${main_objects} LINK ${libraries})
  # The linker also takes the library's object of a patched source, for the sources that are joined
  # with it. The patched functions come first and are the ones that stay. They are called from the
  # library, too: -fPIC keeps gcc from inlining a function that a linker may replace.
  target_link_options(${target} PRIVATE -Wl,-z,muldefs)
  if(definitions)
    target_compile_definitions(${target} PRIVATE ${definitions})
  endif()
  set(command $<TARGET_FILE:${target}>)
  if(ARG_RUN)
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME ${ARG_PROGRAM} RUNTIME_OUTPUT_DIRECTORY ${copy}/bin)
    set(command ${CMAKE_CURRENT_SOURCE_DIR}/stand_in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${copy}/bin
      ${ARG_PROGRAM} $<TARGET_FILE:${ARG_RUN}>)
  endif()
  kvtier_expect(${ARG_EXPECT} ${target} ${command} ${ARG_ARGS})
endfunction()
