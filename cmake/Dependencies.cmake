# Everything here is a Debian 12 package; scripts/packages names them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(uring REQUIRED IMPORTED_TARGET liburing)
find_library(KVTIER_ROCKSDB rocksdb REQUIRED)

if(KVTIER_GRPC)
  find_package(Protobuf REQUIRED)
  pkg_check_modules(grpcpp REQUIRED IMPORTED_TARGET grpc++)
  find_program(KVTIER_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
endif()

# Only benchmarks and their tests read traces.
pkg_check_modules(zstd IMPORTED_TARGET libzstd)
find_package(nlohmann_json QUIET)
set(KVTIER_TRACES OFF)
if(zstd_FOUND AND nlohmann_json_FOUND)
  set(KVTIER_TRACES ON)
endif()

if(KVTIER_TESTS)
  find_package(GTest REQUIRED)
endif()

# CUDA is optional: found, the kernels and the CUDA device are compiled; absent,
# everything else builds and every test passes. Sanitized builds leave it out:
# nvcc knows no sanitizer, and the emulated device is what they can run. A toolkit below
# 12.8 is left out, too: it has no call for a batch of copies, and knows no sm_100.
set(KVTIER_LEAST_CUDA 12.8)
set(KVTIER_CUDA OFF)
if(NOT KVTIER_SANITIZE)
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER)
  # Asks nvcc itself, because enabling the language CUDA fails with an nvcc that knows no sm_90.
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version
    OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
  string(REGEX REPLACE ".*release ([0-9]+\\.[0-9]+).*" "\\1" nvcc_version "${nvcc_version}")
  if(NOT nvcc_version VERSION_GREATER_EQUAL KVTIER_LEAST_CUDA)
    message(WARNING "kvtier: built without CUDA: ${CMAKE_CUDA_COMPILER} is of toolkit "
      "\"${nvcc_version}\", kvtier needs ${KVTIER_LEAST_CUDA} or later. CUDACXX names another nvcc.")
    set(CMAKE_CUDA_COMPILER "")
  endif()
endif()
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # The last architecture is compiled as PTX, too, for later GPUs.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  # CMake 3.25 does not know yet how nvcc is told C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(KVTIER_CUDA ON)
endif()
message(STATUS "kvtier: CUDA ${KVTIER_CUDA}, gRPC ${KVTIER_GRPC}, sanitizers '${KVTIER_SANITIZE}'")
