set(KVTIER_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)

# kvtier_library(<name> SOURCES <files...> LINK <targets...>): a static library
# whose headers are included by their path from the project root.
function(kvtier_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${KVTIER_WARNINGS}>)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
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

# kvtier_test(<name> SOURCES <files...> LINK <targets...> [LABELS <labels...>]
#             [TIMEOUT <seconds>]): one GoogleTest binary, one CTest entry.
function(kvtier_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  kvtier_program(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
