# The headers of TensorFlow's C API and its two libraries, out of the wheel tensorflow-cpu. Nothing links the libraries:
# the framework tensorflow loads them when it is asked for (src/mlbench/framework/tensorflow/library.h).
#
#   MLBENCH_TENSORFLOW_DIR   a folder that holds tensorflow/ (the site-packages of a Python that has TensorFlow); else the
#                            one that tools/setup.sh tensorflow unpacked below XDG_CACHE_HOME
#   mlbench_tensorflow       the headers
#   TensorFlow_LIBRARY       libtensorflow_cc.so.2

include(MlbenchWheels)
mlbench_wheels_folder(_tensorflow tensorflow ${CMAKE_CURRENT_LIST_DIR}/tensorflow.txt)
if(MLBENCH_TENSORFLOW_DIR)
  set(_tensorflow ${MLBENCH_TENSORFLOW_DIR})
endif()

find_path(_tensorflow_include tensorflow/c/c_api.h PATHS ${_tensorflow}/tensorflow/include NO_DEFAULT_PATH NO_CACHE)
find_file(TensorFlow_LIBRARY libtensorflow_cc.so.2 PATHS ${_tensorflow}/tensorflow NO_DEFAULT_PATH NO_CACHE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TensorFlow
  REQUIRED_VARS _tensorflow_include TensorFlow_LIBRARY
  REASON_FAILURE_MESSAGE
    "looked in ${_tensorflow}: tools/setup.sh tensorflow fetches it, or give -DMLBENCH_TENSORFLOW_DIR=<folder>")

if(TensorFlow_FOUND AND NOT TARGET mlbench_tensorflow)
  message(STATUS "TensorFlow: ${_tensorflow}")
  add_library(mlbench_tensorflow INTERFACE)
  target_include_directories(mlbench_tensorflow SYSTEM INTERFACE ${_tensorflow_include})
endif()
