# Contents of a wheel: the extension, two programs, and the licences of all that is inside them or
# bundled with them (pyproject.toml, scripts/wheel).
set(files)
foreach(target _kvtier kvtier kvtier-agent)
  set(map ${PROJECT_BINARY_DIR}/${target}.map)
  target_link_options(${target} PRIVATE -Wl,-Map=${map})
  list(APPEND files $<TARGET_FILE:${target}> ${map})
endforeach()

set(licences ${PROJECT_BINARY_DIR}/licences)
add_custom_command(OUTPUT ${licences}/LINKED
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/linked_licences.py ${licences} ${files}
  DEPENDS _kvtier kvtier kvtier-agent cmake/linked_licences.py
  COMMENT "Collecting the licences of what is linked"
  VERBATIM)
add_custom_target(kvtier_licences DEPENDS ${licences}/LINKED)

install(TARGETS _kvtier LIBRARY DESTINATION kvtier COMPONENT wheel)
install(TARGETS kvtier kvtier-agent RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT wheel)
install(DIRECTORY ${licences}/ DESTINATION ${SKBUILD_METADATA_DIR}/licenses COMPONENT wheel)
