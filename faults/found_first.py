"""What about 290 wrong inputs found before there was a campaign, and the test that holds each since."""

WRONG_INPUTS = "tests/cli/test_wrong_inputs.py::test_a_wrong_input_gets_one_line_and_changes_nothing"
FOUND_FIRST = (
    (
        "`doctor --results` with 1e999999999, 1e-999999999, a key of 5,000 digits, 900 nested objects or a CSV cell of "
        "200 kB ended in a traceback",
        "tests/test_bounded_files.py::test_results_beyond_a_limit_are_refused_in_one_line",
    ),
    (
        "`doctor RUN` with NaN or text in metrics.jsonl ended in a traceback",
        "tests/cli/test_doctor.py::test_metrics_that_are_no_numbers_are_refused_in_one_line",
    ),
    (
        "`doctor RUN` with an empty row in lengths.json, or a newer or half-written heads.json, ended in a traceback",
        "tests/cli/test_doctor.py::test_damaged_findings_are_left_out_with_a_warning",
    ),
    (
        "`headway runs` lost the whole list where the metrics of one run lack a key",
        "tests/cli/test_commands.py::test_a_run_whose_metrics_lack_a_number_does_not_hide_the_others",
    ),
    ("`evaluate --checkpoint` with 5,000 digits ended in a traceback", WRONG_INPUTS),
    (
        '`compare` on a binary results.jsonl said "0 of 2 finished" and exited with 0',
        "tests/cli/test_compare.py::test_a_damaged_file_of_results_is_refused_in_one_line",
    ),
    (
        "a NaN accuracy made `compare` take another column",
        "tests/sweeps/test_compare.py::test_a_metric_that_is_no_number_is_refused",
    ),
    ("`runs NOPE` exited with 0", WRONG_INPUTS),
    ("`train --resume` of a run that does not exist trained a new one", WRONG_INPUTS),
    ("`--set` dropped what followed a line break in its value", WRONG_INPUTS),
    (
        "a full disk under `headway data` left a cut file that stopped the next try, and named no file",
        "tests/faults/test_full_disk.py::test_a_full_disk_costs_nothing",
    ),
    (
        'a U+2028 in a string of a JSONL file was "not JSON"',
        "tests/test_bounded_files.py::test_only_line_feeds_end_a_line",
    ),
    (
        "arguments of 5,000 characters were printed whole",
        "tests/cli/test_wrong_inputs.py::test_a_message_is_one_printable_line_of_at_most_300_characters",
    ),
    (
        "a JSON file of 200 MB took 75 s and 2.8 GB; now it is refused in 5 s with 330 MB, of which 310 MB are the "
        "program and its data",
        "tests/test_bounded_files.py::test_a_file_that_is_too_large_is_not_read",
    ),
    (
        "39 MB of predictions in one line took 7 GB; now they are refused in 5 s with 395 MB",
        "tests/faults/test_hostile_files.py::test_a_text_with_too_many_rows_is_refused",
    ),
    (
        "34 MB of predictions given as `--results` took 74 s and 1 GB; now they are refused in 17 s with 600 MB",
        "tests/test_bounded_files.py::test_results_with_more_numbers_than_a_table_has_are_refused",
    ),
)
