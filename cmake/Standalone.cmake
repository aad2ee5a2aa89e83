# kvtier_standalone(<program> ARCHIVES <libraries of ours...>): links the program so that it runs on
# a bare machine, with a GPU or not: everything but the C library is inside. The archives are one
# group, because no order of them is known here. A build with a sanitizer is not for bare machines:
# its libraries are linked as always.
pkg_check_modules(KVTIER_ABSEIL REQUIRED absl_any_invocable absl_flags_parse absl_flags_usage
  absl_flat_hash_map absl_statusor absl_synchronization absl_time)

function(kvtier_standalone program)
  cmake_parse_arguments(ARG "" "" "ARCHIVES" ${ARGN})
  if(KVTIER_SANITIZE)
    target_link_libraries(${program} PRIVATE ${ARG_ARCHIVES})
    return()
  endif()
  set(files)
  foreach(archive ${ARG_ARCHIVES})
    if(TARGET ${archive})
      add_dependencies(${program} ${archive})
      list(APPEND files $<TARGET_FILE:${archive}>)
      target_include_directories(${program} PRIVATE
        $<TARGET_PROPERTY:${archive},INTERFACE_INCLUDE_DIRECTORIES>)
      target_compile_definitions(${program} PRIVATE
        $<TARGET_PROPERTY:${archive},INTERFACE_COMPILE_DEFINITIONS>)
    endif()
  endforeach()
  target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/core/xxhash_without_dispatch.cc)
  target_link_libraries(${program} PRIVATE -Wl,-Bstatic -Wl,--start-group ${files}
    ${KVTIER_ABSEIL_STATIC_LIBRARIES} xxhash crypto -Wl,--end-group -Wl,-Bdynamic
    $<$<BOOL:${KVTIER_CUDA}>:CUDA::cudart_static> -static-libstdc++ -static-libgcc
    Threads::Threads dl rt)
endfunction()
