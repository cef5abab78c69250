//! C++ operators. Each has two possible ways: straight to the real operator if that only calls malloc or free, which count
//! already; through a counting fast path if the operator is the allocator's own. Those that nobody defines when the program starts are
//! hidden: they are not ours to answer.

use super::*;

/// One operator as `bind` sees it.
struct Operator {
    name: &'static CStr,
    entry: &'static Target,
    next: &'static Target,
    stub: unsafe extern "C" fn(),
    counted: unsafe extern "C" fn(),
}

macro_rules! operator {
    ($module:ident, $name:literal, $c_name:literal, { $($counted:tt)* }) => {
        mod $module {
            use super::*;
            static ENTRY: Target = Target::new(stub);
            static NEXT: Target = Target::new(stub);
            pub static OPERATOR: Operator =
                Operator { name: $c_name, entry: &ENTRY, next: &NEXT, stub, counted };
            unresolved!(stub, ENTRY);
            $($counted)*

            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn hook() {
                naked_asm!(".cfi_startproc", "jmp qword ptr [rip + {entry}]", ".cfi_endproc", entry = sym ENTRY)
            }
        }
    };
}

macro_rules! operator_new {
    ($module:ident, $name:literal, $c_name:literal) => {
        operator!($module, $name, $c_name, {
            allocation_slow!(slow, NEXT, "rdi", hooks::record);
            allocation_fast!(counted, slow, NEXT, "rdi");
        });
    };
}

macro_rules! operator_delete {
    ($module:ident, $name:literal, $c_name:literal) => {
        operator!($module, $name, $c_name, {
            deallocation_slow!(slow, NEXT);
            deallocation_fast!(counted, slow, NEXT);
        });
    };
}

operator_new!(new, "_Znwm", c"_Znwm");
operator_new!(new_array, "_Znam", c"_Znam");
operator_new!(new_nothrow, "_ZnwmRKSt9nothrow_t", c"_ZnwmRKSt9nothrow_t");
operator_new!(new_array_nothrow, "_ZnamRKSt9nothrow_t", c"_ZnamRKSt9nothrow_t");
operator_new!(new_aligned, "_ZnwmSt11align_val_t", c"_ZnwmSt11align_val_t");
operator_new!(new_array_aligned, "_ZnamSt11align_val_t", c"_ZnamSt11align_val_t");
operator_new!(
    new_aligned_nothrow,
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    c"_ZnwmSt11align_val_tRKSt9nothrow_t"
);
operator_new!(
    new_array_aligned_nothrow,
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    c"_ZnamSt11align_val_tRKSt9nothrow_t"
);
operator_delete!(delete, "_ZdlPv", c"_ZdlPv");
operator_delete!(delete_array, "_ZdaPv", c"_ZdaPv");
operator_delete!(delete_nothrow, "_ZdlPvRKSt9nothrow_t", c"_ZdlPvRKSt9nothrow_t");
operator_delete!(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", c"_ZdaPvRKSt9nothrow_t");
operator_delete!(delete_sized, "_ZdlPvm", c"_ZdlPvm");
operator_delete!(delete_array_sized, "_ZdaPvm", c"_ZdaPvm");
operator_delete!(delete_aligned, "_ZdlPvSt11align_val_t", c"_ZdlPvSt11align_val_t");
operator_delete!(delete_array_aligned, "_ZdaPvSt11align_val_t", c"_ZdaPvSt11align_val_t");
operator_delete!(delete_sized_aligned, "_ZdlPvmSt11align_val_t", c"_ZdlPvmSt11align_val_t");
operator_delete!(delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", c"_ZdaPvmSt11align_val_t");
operator_delete!(
    delete_aligned_nothrow,
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t"
);
operator_delete!(
    delete_array_aligned_nothrow,
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t"
);

static OPERATORS: [&Operator; 20] = [
    &new::OPERATOR,
    &new_array::OPERATOR,
    &new_nothrow::OPERATOR,
    &new_array_nothrow::OPERATOR,
    &new_aligned::OPERATOR,
    &new_array_aligned::OPERATOR,
    &new_aligned_nothrow::OPERATOR,
    &new_array_aligned_nothrow::OPERATOR,
    &delete::OPERATOR,
    &delete_array::OPERATOR,
    &delete_nothrow::OPERATOR,
    &delete_array_nothrow::OPERATOR,
    &delete_sized::OPERATOR,
    &delete_array_sized::OPERATOR,
    &delete_aligned::OPERATOR,
    &delete_array_aligned::OPERATOR,
    &delete_sized_aligned::OPERATOR,
    &delete_array_sized_aligned::OPERATOR,
    &delete_aligned_nothrow::OPERATOR,
    &delete_array_aligned_nothrow::OPERATOR,
];

/// Points operators at the real ones. One that no loaded object has fails as if there were no memory: without us its caller would not
/// have been started.
pub fn bind(find: impl Fn(&CStr) -> Option<Found>) {
    for operator in OPERATORS {
        if operator.entry.is_bound_beyond(operator.stub) {
            continue;
        }
        let Some(real) = find(operator.name) else {
            operator.entry.set(missing as *const () as usize);
            continue;
        };
        operator.next.set(real.address);
        let name = operator.name.to_bytes();
        let is_aligned_new =
            name.starts_with(b"_Zn") && name.windows(5).any(|part| part == b"align");
        let counts_here = real.is_of_an_allocator && !(is_aligned_new && real.is_of_jemalloc);
        let counted = operator.counted as *const () as usize;
        operator.entry.set(if counts_here { counted } else { real.address });
    }
}

/// The names of those that no loaded object had.
pub fn missing_names() -> impl Iterator<Item = &'static CStr> + Clone {
    let operators = OPERATORS.iter();
    operators
        .filter(|operator| !operator.entry.is_bound_beyond(missing))
        .map(|operator| operator.name)
}
