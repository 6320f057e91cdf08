# What `cmake --install` lays where, and the Debian packages that cpack makes of it (docs/install.md).
#
#   lib/mlbench/            the programs: they find each other beside themselves, as in the build tree
#   lib/mlbench/libtorch/   LibTorch, in the layout of its wheels, which its own RPATHs name
#   lib/mlbench/libtensorflow/  what mlbench-worker-tensorflow loads, where that is built
#   bin/                    links to the programs that people type
#   share/mlbench/helm/     the Helm chart
#   share/doc/PACKAGE/      licences; of mlbench the pages of docs/
#
# A component is a package: program (mlbench), worker (mlbench-worker), libtorch (mlbench-libtorch); with
# MLBENCH_TENSORFLOW also tensorflow (mlbench-worker-tensorflow) and libtensorflow (mlbench-libtensorflow).

set(_programs lib/mlbench)
set(_libtorch ${_programs}/libtorch)
set(_libtensorflow ${_programs}/libtensorflow)

# _mlbench_install_tree(<component> <base> <destination> <file>...): files, each in its folder below base.
function(_mlbench_install_tree component base destination)
  foreach(file IN LISTS ARGN)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${base} OUTPUT_VARIABLE name)
    cmake_path(GET name PARENT_PATH folder)
    install(FILES ${file} DESTINATION ${destination}/${folder} COMPONENT ${component})
  endforeach()
endfunction()

# _mlbench_install_program(<component> <target>): with a link in bin/.
function(_mlbench_install_program component target)
  install(TARGETS ${target} RUNTIME DESTINATION ${_programs} COMPONENT ${component})
  set(link ${PROJECT_BINARY_DIR}/links/${target})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/links)
  file(CREATE_LINK ../${_programs}/${target} ${link} SYMBOLIC)
  install(FILES ${link} DESTINATION bin COMPONENT ${component})
endfunction()

# _mlbench_library_folder(<name> <folder> <target>...): a folder of libraries, for these programs; where it is installed
# lib/mlbench/<name>.
function(_mlbench_library_folder name folder)
  cmake_path(GET name PARENT_PATH parent)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/bin/${parent})
  file(CREATE_LINK ${folder} ${PROJECT_BINARY_DIR}/bin/${name} SYMBOLIC)
  set_property(TARGET ${ARGN} APPEND PROPERTY INSTALL_RPATH $ORIGIN/${name})
endfunction()

function(_mlbench_install_licence component package licence)
  install(FILES ${licence} DESTINATION share/doc/${package} RENAME copyright COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md DESTINATION share/doc/${package} COMPONENT ${component})
endfunction()

_mlbench_install_program(program mlbench)
install(TARGETS mlbench-guard RUNTIME DESTINATION ${_programs} COMPONENT program)
foreach(_helper mlbench-lmdb mlbench-pieces)
  if(TARGET ${_helper})
    install(TARGETS ${_helper} RUNTIME DESTINATION ${_programs} COMPONENT program)
  endif()
endforeach()
_mlbench_install_licence(program mlbench ${PROJECT_SOURCE_DIR}/LICENSE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/deploy/helm/mlbench DESTINATION share/mlbench/helm COMPONENT program)
# The pages and their pictures; records of results stay in the repository.
file(GLOB_RECURSE _pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md ${PROJECT_SOURCE_DIR}/docs/*.svg)
_mlbench_install_tree(program ${PROJECT_SOURCE_DIR} share/doc/mlbench
  ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${_pages})
set(_components program)

if(TARGET mlbench-worker)
  list(APPEND _components worker libtorch)
  set(_workers mlbench-worker)
  if(TARGET mlbench-worker-tensorflow)
    list(APPEND _workers mlbench-worker-tensorflow)
  endif()
  _mlbench_install_program(worker mlbench-worker)
  _mlbench_install_licence(worker mlbench-worker ${PROJECT_SOURCE_DIR}/LICENSE)

  get_target_property(_library LibTorch::LibTorch IMPORTED_LOCATION)
  cmake_path(GET _library PARENT_PATH _torch_lib)
  cmake_path(SET _wheels NORMALIZE ${_torch_lib}/../..)  # site-packages, or the same of the project's cache
  if(MLBENCH_CUDA)
    file(GLOB _torch_libraries ${_torch_lib}/*.so*)
    list(FILTER _torch_libraries EXCLUDE REGEX "/lib(torch_python|torch_global_deps|shm)\\.so$")  # for Python
    file(GLOB _nvidia_libraries ${_wheels}/nvidia/*/lib/*.so*)
  else()
    file(GLOB _torch_libraries ${_torch_lib}/libtorch_cpu.so* ${_torch_lib}/libc10.so* ${_torch_lib}/libgomp*.so*)
    file(GLOB _nvidia_libraries ${_wheels}/nvidia/*/lib/libcudart.so* ${_wheels}/nvidia/*/lib/libcupti.so*)
  endif()
  _mlbench_install_tree(libtorch ${_torch_lib} ${_libtorch}/torch/lib ${_torch_libraries})
  _mlbench_install_tree(libtorch ${_wheels} ${_libtorch} ${_nvidia_libraries})

  # The build tree has the same folders, as links, so that the program is installed as it was linked: of a path that is
  # replaced when it is installed CMake leaves an empty end, and the loader takes that for the current folder.
  _mlbench_library_folder(libtorch/torch/lib ${_torch_lib} ${_workers})
  if(MLBENCH_NCCL)
    get_target_property(_nccl_libraries mlbench_nccl INTERFACE_LINK_LIBRARIES)  # nvidia/*/lib/*.so of wheels, too
    foreach(_library IN LISTS _nccl_libraries)
      cmake_path(GET _library PARENT_PATH _folder)
      string(REGEX MATCH "nvidia/[^/]+/lib$" _name ${_folder})
      cmake_path(GET _library FILENAME _file)
      if(NOT ${_wheels}/${_name}/${_file} IN_LIST _nvidia_libraries)  # a process is to have one of each
        install(FILES ${_library} DESTINATION ${_libtorch}/${_name} COMPONENT libtorch)
      endif()
      _mlbench_library_folder(libtorch/${_name} ${_folder} ${_workers})
    endforeach()
  endif()
  foreach(_library IN LISTS MPI_C_LIBRARIES)  # may lie where the loader does not look by itself
    cmake_path(GET _library PARENT_PATH _folder)
    if(NOT _folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      set_property(TARGET ${_workers} APPEND PROPERTY INSTALL_RPATH ${_folder})
    endif()
  endforeach()
  set_target_properties(${_workers} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)

  file(GLOB _licence ${_wheels}/torch-*.dist-info/licenses/LICENSE)
  file(GLOB_RECURSE _licences ${_wheels}/torch-*.dist-info/licenses/* ${_wheels}/nvidia_*.dist-info/licenses/*)
  if(_licence)
    _mlbench_install_licence(libtorch mlbench-libtorch ${_licence})
    _mlbench_install_tree(libtorch ${_wheels} share/doc/mlbench-libtorch/licences ${_licences})
  else()
    message(STATUS "No licence of LibTorch beside ${_torch_lib}: do not pass on an installation of this build")
  endif()
endif()

if(TARGET mlbench-worker-tensorflow)
  list(APPEND _components tensorflow libtensorflow)
  _mlbench_install_program(tensorflow mlbench-worker-tensorflow)
  _mlbench_install_licence(tensorflow mlbench-worker-tensorflow ${PROJECT_SOURCE_DIR}/LICENSE)

  # The program loads them by their names, so its RUNPATH finds them.
  cmake_path(GET TensorFlow_LIBRARY PARENT_PATH _tensorflow)
  file(GLOB _tensorflow_libraries ${_tensorflow}/libtensorflow_cc.so.2 ${_tensorflow}/libtensorflow_framework.so.2)
  install(FILES ${_tensorflow_libraries} DESTINATION ${_libtensorflow} COMPONENT libtensorflow)
  _mlbench_library_folder(libtensorflow ${_tensorflow} mlbench-worker-tensorflow)
  if(EXISTS ${_tensorflow}/THIRD_PARTY_NOTICES.txt)
    _mlbench_install_licence(libtensorflow mlbench-libtensorflow ${_tensorflow}/THIRD_PARTY_NOTICES.txt)
  else()
    message(STATUS "No licence of TensorFlow beside ${_tensorflow}: do not pass on an installation of this build")
  endif()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mlbench)
set(CPACK_PACKAGE_CONTACT "The mlbench developers")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${_components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
# The version is that of the programs, so it is read when they are packed: CPACK_MLBENCH_* are for that script.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_version.cmake)
set(CPACK_MLBENCH_VERSION ${PROJECT_VERSION})
set(CPACK_MLBENCH_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_MLBENCH_DESCRIBE ${PROJECT_BINARY_DIR}/generated/mlbench/base/generated/git_describe.h)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)  # xz takes minutes for LibTorch
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME mlbench)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "mlbench-worker, ca-certificates, gnuplot-nox")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "dataset-fashion-mnist")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "benchmark suite for distributed machine learning
The command line, the master with its dashboard, the guard of ranks and the
tasks. What trains is in mlbench-worker.")
if(TARGET mlbench-worker)
  set(CPACK_DEBIAN_WORKER_PACKAGE_NAME mlbench-worker)
  set(CPACK_DEBIAN_WORKER_PACKAGE_RECOMMENDS "openmpi-bin")
  set(CPACK_COMPONENT_WORKER_DESCRIPTION "benchmark suite for distributed machine learning: one rank of a run
The program that reads data, trains and communicates, on each host that has
ranks.")
  set(CPACK_DEBIAN_LIBTORCH_PACKAGE_NAME mlbench-libtorch)
  set(_device "the CPU")
  if(MLBENCH_CUDA)
    set(_device "NVIDIA GPUs")
  endif()
  set(CPACK_COMPONENT_LIBTORCH_DESCRIPTION "LibTorch ${LibTorch_VERSION} for mlbench-worker, for ${_device}
In a folder of its own, where no other program finds it; as published in
PyTorch's wheels.")
  # Nobody's packages: dpkg-shlibdeps is to find them, and to write no dependency.
  set(_folders ${_torch_libraries} ${_nvidia_libraries} ${_nccl_libraries})
  list(TRANSFORM _folders REPLACE "/[^/]+$" "")
  list(REMOVE_DUPLICATES _folders)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${_folders})
endif()
if(TARGET mlbench-worker-tensorflow)
  set(CPACK_DEBIAN_TENSORFLOW_PACKAGE_NAME mlbench-worker-tensorflow)
  set(CPACK_COMPONENT_TENSORFLOW_DESCRIPTION "benchmark suite for distributed machine learning: ranks of TensorFlow
The program of one rank with the framework tensorflow, on each host that has
such ranks. It loads TensorFlow's libraries from lib/mlbench/libtensorflow,
which is the package mlbench-libtensorflow.")
  set(CPACK_DEBIAN_LIBTENSORFLOW_PACKAGE_NAME mlbench-libtensorflow)
  set(CPACK_COMPONENT_LIBTENSORFLOW_DESCRIPTION "TensorFlow's libraries for mlbench-worker-tensorflow, for the CPU
In a folder of their own, where no other program finds them; as published in
the wheel tensorflow-cpu, fetched by tools/setup.sh or taken from the folder
that the build was given as MLBENCH_TENSORFLOW_DIR.")
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${_tensorflow})
endif()
include(CPack)
