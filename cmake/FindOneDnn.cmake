# oneDNN. Debian's own dnnl-config.cmake asks for the headers of OpenCL, which nothing here uses.
#
#   DNNL::dnnl   headers and libdnnl
#   OneDnn_VERSION

find_path(_dnnl_include oneapi/dnnl/dnnl.hpp NO_CACHE)
find_library(_dnnl_library dnnl NO_CACHE)
if(_dnnl_include)
  file(STRINGS ${_dnnl_include}/oneapi/dnnl/dnnl_version.h _lines REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM _lines REPLACE ".* ([0-9]+)$" "\\1")
  list(JOIN _lines . OneDnn_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn
  REQUIRED_VARS _dnnl_library _dnnl_include
  VERSION_VAR OneDnn_VERSION
  REASON_FAILURE_MESSAGE "Debian: libdnnl-dev")

if(OneDnn_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl SHARED IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${_dnnl_library}
    INTERFACE_INCLUDE_DIRECTORIES ${_dnnl_include})
endif()
