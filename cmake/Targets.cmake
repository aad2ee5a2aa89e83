# clang finds that std::stable_sort of libstdc++ 12 calls what libstdc++ deprecates. clang, which
# compiles the builds with sanitizers, checks the locks as it does (scripts/lint thread-safety).
set(KVTIER_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers
  "$<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations;-Wthread-safety;-Wthread-safety-beta>")

# kvtier_join(<name>): compiles the target's sources eight at a time, since reading headers is most
# of what compiling one takes. Those with kill points stay by themselves: a program compiles them
# again with the points alive, and the linker takes the program's in place of the library's.
function(kvtier_join name)
  get_target_property(sources ${name} SOURCES)
  foreach(source ${sources})
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(kill_points)
    if(EXISTS ${path})
      file(STRINGS ${path} kill_points REGEX "KVT_KILL_POINT|core/kill_point.h" LIMIT_COUNT 1)
    endif()
    if(kill_points)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # gcc warns of every source that another includes, as if it were a header.
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# kvtier_library(<name> SOURCES <files...> LINK <targets...>): a static library
# whose headers are included by their path from the project root.
function(kvtier_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${KVTIER_WARNINGS}>)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  kvtier_join(${name})
endfunction()

# kvtier_program(<name> SOURCES <files...> LINK <targets...>): an executable in bin/.
function(kvtier_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${KVTIER_WARNINGS}>)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  if(KVTIER_SANITIZE MATCHES thread)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/testing/tsan_absl.cc)
  endif()
endfunction()

# kvtier_units(<variable> <name> <sources>...): the same sources, but tests of this folder
# (*_test.cc) several at a time as one file (tests/one_unit).
set(KVTIER_TESTS_A_UNIT 12)
function(kvtier_units variable name)
  set(one_unit ${PROJECT_SOURCE_DIR}/tests/one_unit)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(units ${ARGN})
  list(FILTER units EXCLUDE REGEX "^[a-z0-9_]+_test\\.cc$")
  set(tests ${ARGN})
  list(FILTER tests INCLUDE REGEX "^[a-z0-9_]+_test\\.cc$")
  set(some "")
  set(number 0)
  list(LENGTH tests left)
  if(left EQUAL 1)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  foreach(test ${tests})
    list(APPEND some ${folder}/${test})
    list(LENGTH some count)
    math(EXPR left "${left} - 1")
    if(count LESS KVTIER_TESTS_A_UNIT AND left GREATER 0)
      continue()
    endif()
    math(EXPR number "${number} + 1")
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cc)
    set(depends ${some})
    list(TRANSFORM depends PREPEND ${PROJECT_SOURCE_DIR}/)
    add_custom_command(OUTPUT ${unit} COMMAND ${one_unit} ${unit} ${some}
      DEPENDS ${one_unit} ${depends} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMENT "Joining ${count} tests of ${folder}" VERBATIM)
    list(APPEND units ${unit})
    set(some "")
  endforeach()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()

# Tests whose programs run several threads: all that ThreadSanitizer can find something in.
add_custom_target(threaded_tests)

# kvtier_test(<name> SOURCES <files...> LINK <targets...> [LABELS <labels...>]
#             [TIMEOUT <seconds>]): one GoogleTest binary, one CTest entry. Its limit is three times
#             the timeout, for slow machines and sanitizers.
function(kvtier_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  kvtier_units(sources ${name} ${ARG_SOURCES})
  kvtier_program(${name} SOURCES ${sources} LINK ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(threaded_tests ${name})
  endif()
  # ctest begins with the tests of the highest cost, which are the long ones.
  math(EXPR limit "3 * ${ARG_TIMEOUT}")
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}"
    TIMEOUT ${limit} COST ${ARG_TIMEOUT})
endfunction()
