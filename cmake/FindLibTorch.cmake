# LibTorch out of a PyTorch wheel. The wheel's own TorchConfig.cmake
# refuses to configure without a CUDA toolkit, hence this file.
#
#   MLBENCH_TORCH_DIR   the `torch` folder of any PyTorch from 2.11 on; else the one
#                       that tools/setup.sh unpacked below XDG_CACHE_HOME
#   MLBENCH_CUDA        link libtorch_cuda and libc10_cuda, too
#   LibTorch::LibTorch  headers and these libraries
#   LibTorch_VERSION

include(MlbenchWheels)
mlbench_wheels_folder(_torch libtorch ${CMAKE_CURRENT_LIST_DIR}/libtorch.txt)
string(APPEND _torch /torch)
if(MLBENCH_TORCH_DIR)
  set(_torch ${MLBENCH_TORCH_DIR})
endif()

find_library(_torch_cpu torch_cpu PATHS ${_torch}/lib NO_DEFAULT_PATH NO_CACHE)
find_library(_torch_c10 c10 PATHS ${_torch}/lib NO_DEFAULT_PATH NO_CACHE)
set(_required _torch_cpu _torch_c10)
if(MLBENCH_CUDA)
  find_library(_torch_cuda torch_cuda PATHS ${_torch}/lib NO_DEFAULT_PATH NO_CACHE)
  find_library(_torch_c10_cuda c10_cuda PATHS ${_torch}/lib NO_DEFAULT_PATH NO_CACHE)
  list(APPEND _required _torch_cuda _torch_c10_cuda)
endif()
find_file(_torch_version_h NAMES torch/headeronly/version.h torch/csrc/api/include/torch/version.h
  PATHS ${_torch}/include NO_DEFAULT_PATH NO_CACHE)
if(_torch_version_h)
  file(STRINGS ${_torch_version_h} _lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM _lines REPLACE ".* ([0-9]+)$" "\\1")
  list(JOIN _lines . LibTorch_VERSION)
  if(LibTorch_VERSION VERSION_LESS 2.11)
    message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${_torch}: 2.11 or later is needed")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS ${_required} _torch_version_h
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "looked in ${_torch}: tools/setup.sh fetches it, or give -DMLBENCH_TORCH_DIR=<folder of a PyTorch>")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  message(STATUS "LibTorch ${LibTorch_VERSION}: ${_torch}")

  # The wheel's include folder also holds newer fmt, oneDNN, protobuf and pybind11,
  # which would shadow the system's: compile against links to LibTorch's own alone.
  set(_view ${CMAKE_BINARY_DIR}/libtorch-include)
  file(REMOVE_RECURSE ${_view})
  file(MAKE_DIRECTORY ${_view})
  foreach(_folder ATen c10 caffe2 torch)
    file(CREATE_LINK ${_torch}/include/${_folder} ${_view}/${_folder} SYMBOLIC)
  endforeach()

  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION ${_torch_c10})
  add_library(LibTorch::LibTorch SHARED IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    IMPORTED_LOCATION ${_torch_cpu}
    INTERFACE_INCLUDE_DIRECTORIES "${_view};${_view}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES LibTorch::c10)
  if(MLBENCH_CUDA)
    # Nothing refers to them by name: they register themselves when they are loaded.
    target_link_libraries(LibTorch::LibTorch INTERFACE
      -Wl,--push-state,--no-as-needed ${_torch_cuda} ${_torch_c10_cuda} -Wl,--pop-state)
  endif()
endif()
