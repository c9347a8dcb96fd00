# Writes OUTPUT: the text of each file of plans, those that match ops/*/plans.json under ROOT.

file(GLOB _plans RELATIVE "${ROOT}" "${ROOT}/ops/*/plans.json")
list(SORT _plans)
set(_rows "")
foreach(_plan IN LISTS _plans)
  file(READ "${ROOT}/${_plan}" _text)
  string(APPEND _rows "    {\"${_plan}\", R\"plans(${_text})plans\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"core/shipped_plans.h\"\n\n"
     "const weft::ShippedFile weft::kShippedPlans[] = {\n${_rows}    {nullptr, nullptr}};\n")
