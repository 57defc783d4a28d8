"""The Korean of a report: whole sentences, and lines translated by their parts. Unknown text stays as it is."""

import re

import pytest

from glassformer.figures.korean import PATTERNS, SENTENCES, bilingual, in_korean

LINES = {
    "x.csv: 72 examples to train on, 8 held out; 3 empty ones left out (--skip-empty)": (
        "x.csv: 학습용 예시 72개, 검증용 8개; 비어 있어 제외한 것 3개 (--skip-empty)"
    ),
    "encoder-decoder, 2+2 layers, d_model 96, 4 heads, 580,512 parameters (tiny)": (
        "인코더-디코더, 2+2층, d_model 96, 헤드 4개, 파라미터 580,512개 (tiny)"
    ),
    "Scored on a sample of 8,000 of 10,000 images not used in training.": (
        "학습에 쓰지 않은 이미지 10,000개 중 8,000개로 채점했습니다."
    ),
    "load.csv: 400 rows of 1 channel, every 1 hour": "load.csv: 1채널 400행, 1시간 간격",
    "1,400 steps in 7 min; saved: the weights of step 1120, the best on the validation set": (
        "1,400스텝, 7분; 검증 점수가 가장 좋은 1120스텝의 가중치를 저장"
    ),
    "900 steps in 4 min; saved: the mean of the weights at 10 evaluations": (
        "900스텝, 4분; 평가 10회의 가중치 평균을 저장"
    ),
    "a.txt: 90 tokens to train on, 9 held out; 2 of the 9 test documents are also in the training text": (
        "a.txt: 학습용 토큰 90개, 검증용 9개; 테스트용 문서 9개 중 2개는 학습용 데이터에도 있음"
    ),
    "3 of the 50 validation sources are also in the training sources": (
        "검증용 원문 50개 중 3개는 학습용 데이터에도 있음"
    ),
    "UTF-8, separated by tabs, cells in quotes (--no-quotes if they are text), header 'a | b'": (
        "UTF-8, 탭으로 구분, 따옴표로 묶은 칸 (따옴표가 텍스트이면 --no-quotes), 헤더 'a | b'"
    ),
    "1 of 40 tokens in 1 of 5 texts is unknown to the vocabulary: 'x'": (
        "텍스트 5개 중 1개에서 토큰 40개 중 1개가 어휘에 없음: 'x'"
    ),
    "baseline skipped: linear (it takes 9 min, more than is left of --minutes)": (
        "건너뛴 기준 모델: 선형 모델 (--minutes의 남은 시간이 부족합니다)"
    ),
    "macro f1, validation": "매크로 F1, 검증",
    "Scored on 46 masked tokens not used in training.": "학습에 쓰지 않은 마스킹된 토큰 46개로 채점했습니다.",
}


@pytest.mark.parametrize("english", LINES)
def test_a_line_is_known_by_its_parts(english: str) -> None:
    assert in_korean(english) == LINES[english]


def test_what_is_not_known_stays_and_everything_is_escaped() -> None:
    assert in_korean("a class of the data") is None
    assert bilingual("<b> & co") == "&lt;b&gt; &amp; co"
    assert bilingual("Scores") == '<span lang="en">Scores</span><span lang="ko">점수</span>'
    assert "<b>" not in bilingual("<b>: 3 pairs to train on")


def test_every_part_fills_in_what_it_found() -> None:
    for pattern, korean in PATTERNS:
        groups = re.compile(pattern).groups
        assert {int(number) for number in re.findall(r"\{(\d)\}", korean)} <= set(range(groups))
    for english, korean in SENTENCES.items():
        assert re.search("[가-힣]", korean)
        assert not re.search("[가-힣]", english)
