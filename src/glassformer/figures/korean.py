"""Korean translations for bilingual pages, such as the report of a run.

Fixed sentences are looked up whole. Composed lines, such as a task's description of its data, are translated part by
part. Text without a translation, such as a path or a name from the data, stays as it is.
"""

import os
import re
from functools import partial
from html import escape

SENTENCES = {
    # titles
    "Scores": "점수",
    "Training": "학습 과정",
    "Forecasts": "예측",
    "Examples": "예시",
    "Attention": "어텐션",
    "Confusion matrix": "혼동 행렬",
    "Commands": "명령어",
    "Settings": "설정",
    # facts, metrics and columns
    "data": "데이터",
    "format": "형식",
    "reading": "읽은 방식",
    "tokens": "토큰",
    "classes": "클래스",
    "labels": "레이블",
    "images": "이미지",
    "series": "시계열",
    "windows": "윈도",
    "model": "모델",
    "trained": "학습",
    "this model": "이 모델",
    "accuracy": "정확도",
    "macro f1": "매크로 F1",
    "micro f1": "마이크로 F1",
    "exact match": "완전 일치",
    "facts": "사실 정확도",
    "exact match on held out pairs": "완전 일치(학습에 없던 색·도형 조합)",
    "facts on held out pairs": "사실 정확도(학습에 없던 색·도형 조합)",
    "accuracy on held out pairs": "정확도(학습에 없던 색·도형 조합)",
    "accuracy of colour": "정확도(색)",
    "accuracy of shape": "정확도(도형)",
    "accuracy of count": "정확도(개수)",
    "accuracy of relation": "정확도(위치 관계)",
    "recall": "재현율",
    "recall on held out pairs": "재현율(학습에 없던 색·도형 조합)",
    "image to text": "이미지에서 텍스트로",
    "text to image": "텍스트에서 이미지로",
    "random guess": "무작위 추측",
    "colour histogram against words": "색 히스토그램과 색 이름 비교",
    "question": "질문",
    "caption": "캡션",
    "perplexity": "퍼플렉시티",
    "bits per byte": "바이트당 비트",
    "loss": "손실",
    "learning rate": "학습률",
    "norm of the gradient": "기울기 노름",
    "training": "학습",
    "validation": "검증",
    "step": "스텝",
    "time": "시간",
    "the past": "과거",
    "actual": "실제 값",
    "the forecast": "예측",
    "source": "원문",
    "expected": "정답",
    "answer": "모델의 답",
    "translation": "모델의 번역",
    "text": "텍스트",
    "image": "이미지",
    "input": "입력",
    "prompt": "프롬프트",
    "continuation": "이어서 생성한 텍스트",
    "logarithmic": "로그 눈금",
    "no finite value to draw": "그릴 수 있는 유한한 값이 없습니다",
    "differs from what was expected": "정답과 다릅니다",
    # what a model is compared with
    "always the most frequent class": "최빈 클래스",
    "the most frequent token": "최빈 토큰",
    "bag of words, logistic regression": "단어 주머니(bag of words) 로지스틱 회귀",
    "nearest mean image": "평균 이미지가 가장 가까운 클래스",
    "character 5-grams (Kneser-Ney)": "문자 5-gram (Kneser-Ney)",
    "translation of the most similar training sentence": "가장 비슷한 학습 문장의 번역",
    "linear": "선형 모델",
    "caption of the nearest training image": "가장 가까운 학습 이미지의 캡션",
    "the question alone": "질문만으로 고른 최빈 답",
    "commonest answer of the topic": "질문 유형별 최빈 답",
    "always the commonest answer": "최빈 답",
    # sentences of the report
    "Rows are true classes, columns are answers; bold counts are correct.": (
        "행은 실제 클래스, 열은 모델의 답입니다. 굵은 숫자는 맞힌 개수입니다."
    ),
    "Most frequent confusions:": "자주 혼동한 클래스:",
    "Try it on new inputs:": "새 입력을 넣어 봅니다:",
    "Look inside it in the browser:": "브라우저에서 모델 속을 들여다봅니다:",
    "Score it again, or on your own files with --data:": "다시 채점합니다. 내 파일로 하려면 --data를 씁니다:",
    "Train it longer:": "더 오래 학습합니다:",
    "Trained with:": "학습에 사용한 명령:",
    "All settings have their defaults.": "모든 설정이 기본값입니다.",
    "scored on the validation set, which also selected the weights: the score may be too optimistic": (
        "검증 데이터로 채점했습니다. 가중치도 이 데이터로 골랐으므로 실제보다 좋게 나왔을 수 있습니다"
    ),
    "simple methods are scored on all of the text": "기준 모델은 전체 텍스트로 채점했습니다",
    "no baseline: it needs the training examples, but only the examples to score were read": (
        "기준 모델 없음: 학습용 예시가 필요한데 채점할 데이터만 읽었습니다"
    ),
    "no baseline: the baselines predict a single class, but examples here have several labels": (
        "기준 모델 없음: 클래스를 하나만 고르는 기준 모델뿐인데 여기서는 정답이 여러 개일 수 있습니다"
    ),
}

# Parts of lines, longer ones first. {0} is the first group of the pattern.
N = r"(\d[\d,.]*)"
KOREAN_UNITS = {
    "masked tokens": "마스킹된 토큰", "examples": "예시", "pairs": "문장 쌍", "texts": "텍스트", "images": "이미지",
    "tokens": "토큰", "windows": "윈도", "captions": "캡션", "questions": "질문",
    "documents": "문서", "sources": "원문",
}  # fmt: skip
UNIT = "(" + "|".join(KOREAN_UNITS) + ")"
KOREAN_PARTS = {"training": "학습용", "validation": "검증용", "test": "테스트용"}
PART = "(" + "|".join(KOREAN_PARTS) + ")"
PATTERNS = [
    # data
    (rf"{N} {UNIT} to train on", "학습용 {1} {0}개"),
    (rf"{N} {UNIT} held out", "검증용 {1} {0}개"),
    (rf"{N} {UNIT} to test", "테스트용 {1} {0}개"),
    (rf"{N} to train on", "학습용 {0}개"),
    (rf"{N} to validate", "검증용 {0}개"),
    (rf"{N} held out", "검증용 {0}개"),
    (rf"{N} to test", "테스트용 {0}개"),
    (rf"; {N} left out because their (?:text|source) is held out", "; 검증용과 겹쳐 제외한 것 {0}개"),
    (rf"; {N} empty ones left out \(--skip-empty\)", "; 비어 있어 제외한 것 {0}개 (--skip-empty)"),
    (rf"; {N} empty documents? left out", "; 비어 있어 제외한 문서 {0}개"),
    (rf"; {N} other files? in the folder not read", "; 폴더에서 읽지 않은 다른 파일 {0}개"),
    (
        rf"{N} of the {N} {PART} {UNIT} are also in the {PART} (?:text|{UNIT})",
        "{2} {3} {1}개 중 {0}개는 {4} 데이터에도 있음",
    ),
    (rf"; {N} texts? truncated to {N} tokens \(--truncate\)", "; {1}토큰으로 잘라 낸 텍스트 {0}개 (--truncate)"),
    (rf"; {N} values? outside the common span trimmed \(--cut\)", "; 공통 구간을 벗어나 잘라 낸 값 {0}개 (--cut)"),
    (rf"; {N} missing values? filled", "; 채운 결측값 {0}개"),
    (rf", of which the last {N} are not used \(--splits\)", ", 마지막 {0}행은 쓰지 않음 (--splits)"),
    (rf"of (\d+x\d+) pixels, {N} classes", "{0}픽셀, 클래스 {1}개"),
    (rf"{N} rows of {N} channels?, every {N} seconds?", "{1}채널 {0}행, {2}초 간격"),
    (rf"{N} rows of {N} channels?, every {N} minutes?", "{1}채널 {0}행, {2}분 간격"),
    (rf"{N} rows of {N} channels?, every {N} hours?", "{1}채널 {0}행, {2}시간 간격"),
    (rf"{N} rows of {N} channels?, every {N} days?", "{1}채널 {0}행, {2}일 간격"),
    (rf"{N} rows of {N} channels?, every", "{1}채널 {0}행, 간격"),
    (rf"{N} values back, {N} ahead:", "과거 값 {0}개로 다음 값 {1}개를 예측:"),
    (rf"{N} of {N} tokens in an epoch", "에폭마다 {1}토큰짜리 {0}개"),
    (r", with (\S+) of the (whole words|tokens) to predict", ", 그중 {0}를 마스킹하고 예측"),
    (r"\(no --data was given\)", "(--data를 주지 않음)"),
    (r"^Python's documentation", "파이썬 문서"),
    (r"^built-in scenes", "내장 도형 이미지"),
    (rf"{N} images per epoch", "에폭마다 이미지 {0}장"),
    (r"on images of (\d+x\d+) pixels", "이미지 {0}픽셀"),
    (
        rf"^held-out pairs: {N} {UNIT} on colour-shape pairs not seen in training",
        "학습에 없던 색·도형 조합: {1} {0}개로 채점",
    ),
    (
        rf"^held-out pairs: {N} images with colour-shape pairs not seen in training",
        "학습에 없던 색·도형 조합이 있는 이미지 {0}장",
    ),
    (
        rf"^recall: each image is matched against {N} different captions, and each caption against as many images; "
        rf"mean of both directions, over {N} groups?",
        "재현율: 이미지마다 서로 다른 캡션 {0}개와, 캡션마다 같은 수의 이미지와 비교; 양방향 평균, {1}묶음",
    ),
    (rf"^the nearest image is among {N} training images", "가장 가까운 이미지는 학습 이미지 {0}장 중에서 찾음"),
    (rf"{N} rows? with an empty text left out \(--skip-empty\)", "텍스트가 비어 있어 제외한 행 {0}개 (--skip-empty)"),
    (r"^the built-in dates, English to Korean", "내장 날짜 데이터, 영어에서 한국어로"),
    (r"^questions about who arrived when", "누가 언제 도착했는지 묻는 질문"),
    (r"^a word missing in Python's documentation", "파이썬 문서에서 빠진 단어 예측하기"),
    (r"^a simulated town's utilities, hour by hour", "가상 도시의 시간별 사용량"),
    (r"^scikit-learn's digits", "scikit-learn의 숫자 이미지"),
    (r"one label per example:", "하나만 해당:"),
    (r"any number of labels per example:", "여럿이 해당할 수 있음:"),
    # how files are written
    (r"separated by tabs", "탭으로 구분"),
    (r"separated by commas", "쉼표로 구분"),
    (r"separated by semicolons", "세미콜론으로 구분"),
    (r", cells in quotes \(--no-quotes if they are text\)", ", 따옴표로 묶은 칸 (따옴표가 텍스트이면 --no-quotes)"),
    (r", cells in quotes", ", 따옴표로 묶은 칸"),
    (r", quotes are text", ", 따옴표는 텍스트"),
    (
        r"no header: the first row is ('.*'); --header if it names the columns",
        "헤더 없음: 첫 행은 {0} (열 이름이면 --header)",
    ),
    (r", header '", ", 헤더 '"),
    (r"^UTF-8 text$", "UTF-8 텍스트"),
    # model and tokens
    (rf"a vocabulary of {N}, (\w+), learned from the training text", "어휘 크기 {0}, {1}, 학습용 텍스트로 만듦"),
    (rf"a vocabulary of {N}, from ", "어휘 크기 {0}, 출처 "),
    (r"^encoder-decoder, (\S+) layers", "인코더-디코더, {0}층"),
    (r"^encoder, (\S+) layers", "인코더, {0}층"),
    (r"^decoder, (\S+) layers", "디코더, {0}층"),
    (rf"{N} heads, {N} parameters, from ", "헤드 {0}개, 파라미터 {1}개, 출처 "),
    (rf"{N} heads, {N} parameters", "헤드 {0}개, 파라미터 {1}개"),
    (
        rf"^image encoder with {N} layers, d_model {N}; text encoder with {N}, d_model {N}; embeddings of {N}, "
        rf"{N} parameters",
        "이미지 인코더 {0}층, d_model {1}; 텍스트 인코더 {2}층, d_model {3}; 임베딩 너비 {4}, 파라미터 {5}개",
    ),
    # training
    (rf"^{N} steps in {N} s\b", "{0}스텝, {1}초"),
    (rf"^{N} steps in {N} min\b", "{0}스텝, {1}분"),
    (rf"^{N} steps in {N} h\b", "{0}스텝, {1}시간"),
    (rf"^{N} steps\b", "{0}스텝"),
    (
        rf"saved: the weights of step {N}, the best on the validation set",
        "검증 점수가 가장 좋은 {0}스텝의 가중치를 저장",
    ),
    (rf"saved: the weights of step {N}", "{0}스텝의 가중치를 저장"),
    (rf"saved: the moving average of the weights at step {N}", "{0}스텝까지의 가중치 이동 평균을 저장"),
    (rf"saved: the mean of the weights at {N} evaluations", "평가 {0}회의 가중치 평균을 저장"),
    # scores
    (
        rf"^Scored on a sample of {N} of {N} {UNIT} not used in training\.$",
        "학습에 쓰지 않은 {2} {1}개 중 {0}개로 채점했습니다.",
    ),
    (rf"^Scored on {N} {UNIT} not used in training\.$", "학습에 쓰지 않은 {1} {0}개로 채점했습니다."),
    (rf"^Validation scores are on a sample of {N} of {N} {UNIT}\.$", "검증 점수는 {2} {1}개 중 {0}개로 매겼습니다."),
    (
        rf"^scored on a sample of {N} of {N} {UNIT}, to stay within --minutes\. (`.*`) scores all$",
        "{2} {1}개 중 {0}개로 채점: --minutes 안에 모두 채점할 수 없습니다. {3} 명령이 전부 채점합니다",
    ),
    (
        rf"^every token is predicted once, with {N} to {N} tokens before it where its document has them; {N} bytes of "
        r"text in UTF-8$",
        "모든 토큰을 한 번씩, 같은 문서에서 앞에 있는 {0}~{1}토큰까지 보고 예측; UTF-8 텍스트 {2}바이트",
    ),
    (
        rf"^every token of the sample is predicted once, with {N} to {N} tokens before it where its document has them; "
        rf"{N} bytes of text in UTF-8$",
        "표본의 모든 토큰을 한 번씩, 같은 문서에서 앞에 있는 {0}~{1}토큰까지 보고 예측; UTF-8 텍스트 {2}바이트",
    ),
    (r"^(\S+) of the tokens are predicted, always the same ones$", "토큰의 {0}를 예측하며, 항상 같은 토큰입니다"),
    (
        rf"^all {N} windows are scored, on values scaled by the training rows$",
        "윈도 {0}개를 모두 채점; 값은 학습 구간 기준으로 정규화",
    ),
    (r"^windows are scored, on values scaled by the training rows$", "값은 학습 구간 기준으로 정규화해 채점"),
    (
        rf"^the nearest mean image uses about {N} of the {N} training images$",
        "평균 이미지는 학습 이미지 {1}개 중 약 {0}개로 구했습니다",
    ),
    (
        rf"^token frequencies are counted on the first {N} training tokens$",
        "최빈 토큰은 처음 {0}개의 학습용 토큰에서 구했습니다",
    ),
    (
        rf"^no bag-of-words baseline: {N} training examples are more than {N}, which would take too long$",
        "단어 주머니와는 비교하지 않음: 학습용 예시가 {0}개로, {1}개를 넘어 너무 오래 걸립니다",
    ),
    (
        rf"^no 5-gram baseline: {N} bytes are more than {N}, which would take too long$",
        "5-gram과는 비교하지 않음: {0}바이트로, {1}바이트를 넘어 너무 오래 걸립니다",
    ),
    (
        rf"^{N} of {N} tokens in {N} of {N} texts (?:is|are) unknown to the vocabulary: (.*?)(?:\. In {N} of them it "
        r"is more than half, so the answer means little\. Is it similar to the training text\?)?$",
        "텍스트 {3}개 중 {2}개에서 토큰 {1}개 중 {0}개가 어휘에 없음: {4}",
    ),
    (rf"^{N} of {N} tokens are unknown to the vocabulary$", "토큰 {1}개 중 {0}개가 어휘에 없음"),
    (rf"^seasonal naive, {N}$", "계절 나이브, {0}"),
    (
        r"^baseline skipped: (.*) \(.*, more than is left of --minutes\)$",
        "건너뛴 기준 모델: {0} (--minutes의 남은 시간이 부족합니다)",
    ),
    (
        rf"^{N} of these bytes are unknown to the tokenizer, so bits per byte is too low to compare\. "
        r"Use --tokenizer bytes$",
        "그중 {0}바이트는 토크나이저가 모르는 문자라서 바이트당 비트가 너무 낮게 나옵니다. --tokenizer bytes를 쓰세요",
    ),
    (
        r"^the data changed during the run \(--accept-changed-data\): (.*)$",
        "학습하는 도중에 데이터가 바뀌었습니다 (--accept-changed-data): {0}",
    ),
    # the rest of the report
    (r"^(.*), validation$", "{0}, 검증"),
    (rf"^{N} values are not finite and not drawn$", "유한하지 않은 값 {0}개는 그리지 않았습니다"),
    (rf"^all {N} classes$", "클래스 {0}개 모두"),
    (rf"^{N} other settings, at their defaults$", "기본값 그대로인 나머지 {0}개"),
    (r"^Written by glassformer (\S+)\.$", "glassformer {0}에서 작성했습니다."),
]
COMPILED = [(re.compile(pattern), korean) for pattern, korean in PATTERNS]


def in_korean(english: str) -> str | None:
    """The text in Korean, or None if no part of it has a translation."""
    if english in SENTENCES:
        return SENTENCES[english]
    found = english
    for pattern, korean in COMPILED:
        found = pattern.sub(partial(filled, korean), found)
    return None if found == english else found


def filled(korean: str, match: re.Match[str]) -> str:
    return korean.format(*map(translated_part, match.groups("")))


def translated_part(text: str) -> str:
    """The Korean for a matched group, or the group itself."""
    return KOREAN_UNITS.get(text) or KOREAN_PARTS.get(text) or SENTENCES.get(text, text)


def bilingual(english: str, korean: str | None = None, *, tag: str = "span") -> str:
    """HTML of a text in both languages, one of which the page shows. Inside a chart, use the tag `tspan`."""
    korean = korean or in_korean(english)
    if korean is None:
        return escape(english)
    return f'<{tag} lang="en">{escape(english)}</{tag}><{tag} lang="ko">{escape(korean)}</{tag}>'


def with_korean(english: str) -> str:
    """The text with its Korean in brackets, for attributes, which cannot hold two elements."""
    korean = in_korean(english)
    return english if korean is None else f"{english} ({korean})"


def system_is_korean() -> bool:
    """Whether the user's system is set to Korean."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "").startswith("ko")
