"""Mutants of questions that are always asked."""

MUTANTS = [
    ("ask-answer-the-sum-of-rows-that-go-is-lost", "daemon/ask/answer.c",
     "	others->sum += row->counts.sum;",
     "", ["unit/ask_answer"]),
    ("ask-answer-counted-in-others-and-later-again", "daemon/ask/answer.c",
     "	row->counts = (struct ask_counts){0};",
     "", ["unit/ask_answer"]),
    ("ask-answer-row-bound-off-by-one", "daemon/ask/answer.c",
     "if (answer->rows == answer->rows_max)",
     "if (answer->rows > answer->rows_max)", ["unit/ask_answer"]),
    ("ask-answer-top-1-rows", "daemon/ask/answer.c",
     "else if (i < answer->top)",
     "else if (i <= answer->top)", ["unit/ask_answer"]),
    ("ask-answer-rows-flap", "daemon/ask/answer.c",
     "KEEPS_ITS_PLACE	1.5",
     "KEEPS_ITS_PLACE	1.0", ["unit/ask_answer"]),
    ("ask-question-top-bound", "daemon/ask/question.c",
     "reader->question->top > ASK_TOP_MAX",
     "reader->question->top > ASK_TOP_MAX + 1", ["unit/ask_question"]),
]
