# Writes OUTPUT: a table of the comments that the files named by RUNGS (in LIST) open with.

include("${LIST}")
set(_rows "")
foreach(_rung IN LISTS RUNGS)
  file(READ "${ROOT}/${_rung}" _text)
  string(REGEX MATCH "^(//[^\n]*\n)+" _comment "${_text}")
  string(REGEX REPLACE "(^|\n)// ?" "\\1" _comment "${_comment}")
  string(REGEX REPLACE "\\.cu$" "" _name "${_rung}")
  string(APPEND _rows "    {\"${_name}\", R\"lesson(${_comment})lesson\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"core/ladder.h\"\n\nstatic const weft::ladder::RegisterLessons kLessons{{\n${_rows}}};\n")
