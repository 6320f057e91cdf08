# NCCL and CUDA's runtime, headers and libraries, out of NVIDIA's wheels.
#
#   MLBENCH_NCCL_DIR   a folder that holds nvidia/nccl and nvidia/cu13 (the site-packages of a Python that has
#                      these wheels); else the one that tools/setup.sh nccl unpacked below XDG_CACHE_HOME
#   mlbench_nccl       headers and libraries

include(MlbenchWheels)
mlbench_wheels_folder(_nccl nccl ${CMAKE_CURRENT_LIST_DIR}/nccl.txt)
if(MLBENCH_NCCL_DIR)
  set(_nccl ${MLBENCH_NCCL_DIR})
endif()

find_path(_nccl_include nccl.h PATHS ${_nccl}/nvidia/nccl/include NO_DEFAULT_PATH NO_CACHE)
find_path(_cuda_include cuda_runtime_api.h PATHS ${_nccl}/nvidia/cu13/include NO_DEFAULT_PATH NO_CACHE)
find_file(_nccl_library libnccl.so.2 PATHS ${_nccl}/nvidia/nccl/lib NO_DEFAULT_PATH NO_CACHE)
find_file(_cuda_library libcudart.so.13 PATHS ${_nccl}/nvidia/cu13/lib NO_DEFAULT_PATH NO_CACHE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nccl
  REQUIRED_VARS _nccl_include _cuda_include _nccl_library _cuda_library
  REASON_FAILURE_MESSAGE "looked in ${_nccl}: tools/setup.sh nccl fetches it, or give -DMLBENCH_NCCL_DIR=<folder>")

if(Nccl_FOUND AND NOT TARGET mlbench_nccl)
  message(STATUS "NCCL: ${_nccl}")
  add_library(mlbench_nccl INTERFACE)
  target_include_directories(mlbench_nccl SYSTEM INTERFACE ${_nccl_include} ${_cuda_include})
  target_link_libraries(mlbench_nccl INTERFACE ${_nccl_library} ${_cuda_library})
endif()
