"""Korean translations for the measured tables: headers, row names and comparisons. Names, commands and figures stay."""

import re

PHRASES = {
    # shared by several tables
    "measured": "측정값",
    "measure": "지표",
    "time": "시간",
    "total time": "전체 시간",
    "ratio": "비율",
    "speed": "속도",
    "mean": "평균",
    "average": "평균",
    "others": "기타",
    "training": "학습",
    "generation": "생성",
    "engine": "엔진",
    "tokens/s": "초당 토큰 수",
    "for comparison": "비교",
    "accuracy": "정확도",
    "exact match": "완전 일치",
    "bits per byte": "바이트당 비트",
    "perplexity": "퍼플렉시티",
    # demo
    "`make demo`, two cores": "`make demo`, 코어 두 개",
    "exact match on held-out dates": "학습에 쓰지 않은 날짜의 완전 일치",
    r"(\**)([\d.]+%) of (\d+)\1": r"\3개 중 \1\2\1",
    "total time, training included": "학습을 포함한 전체 시간",
    # speed
    r"tokens/s, float32, two threads \(speedup of the engine\)": "초당 토큰 수, float32, 스레드 두 개 (엔진 배속)",
    r"first token \(transformers\)": "첫 토큰 (transformers)",
    "of the hardware limit": "하드웨어 한계 대비",
    r"GPT-2 small, batch (\d+)": r"GPT-2 small, 배치 \1",
    r"GPT-2 small, batch (\d+), int8 weights": r"GPT-2 small, 배치 \1, int8 가중치",
    r"the paper's base, beam (\d+), batch (\d+)": r"논문의 base 모델, 빔 \1, 배치 \2",
    r"the paper's base, greedy, batch (\d+)": r"논문의 base 모델, 그리디, 배치 \1",
    r"one layer, (\d+) wide, batch (\d+)": r"1층, 너비 \1, 배치 \2",
    r"BERT-base, (\d+) texts of (\d+) to (\d+) tokens": r"BERT-base, \2~\3토큰 텍스트 \1개",
    # first token
    "GPT-2 small, from starting Python to the first token": "GPT-2 small, 파이썬 시작부터 첫 토큰까지",
    r"engine, first time on a machine \(compiles\)": "엔진, 첫 실행 (컴파일 포함)",
    "engine, every later time": "엔진, 두 번째 실행부터",
    # int8
    "trained model": "학습된 모델",
    "perplexity on its own stories": "모델이 생성한 이야기의 퍼플렉시티",
    "masked tokens predicted like the reference": "마스킹된 토큰의 예측이 기준 구현과 같은 비율",
    r"lowest cosine of (\d+) sentence vectors": r"문장 임베딩 \1개의 최소 코사인 유사도",
    # tasks
    "built-in data, two cores": "내장 데이터, 코어 두 개",
    "baselines": "기준 모델",
    # train
    "training the model of nanoGPT's CPU example, two threads": "nanoGPT의 CPU 예제 모델 학습, 스레드 두 개",
    "transformers' GPT-2, plain loop": "transformers의 GPT-2, 단순한 루프",
    "our time outside forward, backward and optimiser": "순전파, 역전파, 옵티마이저를 뺀 나머지 시간",
    # watch
    "recording attention": "어텐션 기록",
    r"(\d+) layers, d_model (\d+), ([\d,]+) tokens, nothing recorded": r"\1층, d_model \2, \3토큰, 기록 없음",
    "one head of one layer recorded, every row": "한 층의 헤드 하나를 모든 행에서 기록",
    "all heads of one layer recorded, every row": "한 층의 모든 헤드를 모든 행에서 기록",
    r"peak memory of one layer, one row recorded, ([\d,]+) tokens": r"층 하나의 최대 메모리, 한 행 기록, \1토큰",
    r"([\d,]+ MiB) without recording; ([\d,]+ MiB) for all rows": r"기록하지 않으면 \1, 모든 행은 \2",
    # align
    r"alignment error, (\d+) held-out dates": r"정렬 오류율, 학습에 쓰지 않은 날짜 \1개",
    "heads chosen without labels": "정답 없이 고른 헤드",
    "last layer, heads averaged": "마지막 층, 헤드 평균",
    r"([\d.]+%) \(last layer\)": r"\1 (마지막 층)",
    r"demo, seed (\d+)": r"demo, 시드 \1",
    # explorer
    r"the explorer, (\d+) layers, (\d+) heads": r"탐색기, \1층, 헤드 \2개",
    "first paint": "첫 화면",
    "input to map": "입력에서 맵까지",
    "hover to highlight": "마우스를 올리고 강조까지",
    "hover to numbers": "숫자 표시까지",
    r"([\d,]+) tokens": r"\1토큰",
    # core
    "the core": "코어",
    "base model, forward": "base 모델, 순전파",
    r"base model, forward \+ backward": "base 모델, 순전파 + 역전파",
    r"memory of one causal, padded layer, ([\d,]+) tokens": r"패딩이 있는 인과 층 하나의 메모리, \1토큰",
    r"(\d+) x less": r"\1분의 1",
    # load
    "from disk to logits": "디스크에서 로짓까지",
    "load": "불러오기",
    r"load \+ forward": "불러오기 + 순전파",
    "extra memory": "추가 메모리",
    r"([\d.]+) x the file": r"파일의 \1배",
    # families
    "lines of code": "코드 줄 수",
    r"(\d+) files, (\d+) model types": r"\1페이지, 모델 종류 \2개",
    "longest": "가장 긴 것",
    r"([\d,]+) per file": r"페이지당 \1",
    r"([\d,]+) per type": r"종류당 \1",
    "the same families in transformers": "transformers의 같은 계열",
    # start-up
    "start-up": "시작 시간",
    "relative to `import torch`": "`import torch` 대비",
    "gf.Transformer ready": "gf.Transformer를 쓸 수 있을 때까지",
    "transformers' GPT-2 ready": "transformers의 GPT-2를 쓸 수 있을 때까지",
    # scenes
    "built-in scenes, two cores": "내장 도형 이미지, 코어 두 개",
    "target": "목표",
    "(`train caption`): captions fully correct": r"\1: 캡션이 완전히 맞은 비율",
    "(`train caption`): facts correct": r"\1: 캡션 속 사실이 맞은 비율",
    "(`train caption`): captions fully correct, unseen pairs of colour and shape": (
        r"\1: 캡션이 완전히 맞은 비율, 학습에 없던 색·도형 조합"
    ),
    "(`train caption`): facts correct, unseen pairs": r"\1: 캡션 속 사실이 맞은 비율, 학습에 없던 색·도형 조합",
    "(`train ask`): answers correct": r"\1: 답이 맞은 비율",
    "(`train ask`): answers correct, unseen pairs": r"\1: 답이 맞은 비율, 학습에 없던 색·도형 조합",
    r"(`train match`): correct match ranked first of 64 \(mean of both directions\)": (
        r"\1: 64개 중 정답이 1위인 비율 (양방향 평균)"
    ),
    "(`train match`): the same, unseen pairs": r"\1: 같은 비율, 학습에 없던 색·도형 조합",
    "attention from the name of a shape to its patches": "도형을 가리키는 단어가 그 도형의 패치를 본 비율",
    "share": "비율",
    r"best head \(layer (\d+), head (\d+)\)": r"가장 좋은 헤드 (층 \1, 헤드 \2)",
    r"mean over the heads of layer (\d+)": r"층 \1의 모든 헤드 평균",
    "mean over all heads": "모든 헤드의 평균",
    "chance: uniform attention over all patches": "우연 수준: 모든 패치를 고르게 볼 때",
    # next to a busy process
    r"(\d+) layers, (\d+) wide, (\d+) cores, tokens/s": r"\1층, 너비 \2, 코어 \3개, 초당 토큰 수",
    "alone": "단독 실행",
    "started while another process keeps one core busy": "다른 프로세스가 코어 하나를 쓰고 있을 때 시작",
    "that process started later": "실행 중에 그 프로세스가 시작",
    "CPU use of an idle engine": "대기 중인 엔진의 CPU 사용률",
    # norms
    "layers": "층 수",
    "layers, learning rate": "층 수, 학습률",
    "(pre|post), first layer": r"\1, 첫 층",
    "(pre|post), last layer": r"\1, 마지막 층",
    "(pre|post), warm-up": r"\1, 웜업 있음",
    "(pre|post), no warm-up": r"\1, 웜업 없음",
    r"([\d.]+), stuck": r"\1, 정체",
    "not run": "실행 안 함",
}
BASELINES = {
    "always the most frequent class": "최빈 클래스",
    "the most frequent token": "최빈 토큰",
    "bag of words, logistic regression": "단어 주머니(bag of words) 로지스틱 회귀",
    "nearest mean image": "평균 이미지가 가장 가까운 클래스",
    "character 5-grams (Kneser-Ney)": "문자 5-gram (Kneser-Ney)",
    "translation of the most similar training sentence": "가장 비슷한 학습 문장의 번역",
    "seasonal naive": "계절 나이브",
    "caption of the nearest training image": "가장 가까운 학습 이미지의 캡션",
    "the question alone": "질문만으로 고른 최빈 답",
    "commonest answer of the topic": "질문 유형별 최빈 답",
    "colour histogram against words": "색 히스토그램과 색 이름 비교",
    "random guess": "무작위 추측",
    "linear": "선형 모델",
}


def korean(cell: str) -> str:
    """A cell in Korean: translated as a whole, or each baseline in it; unchanged if nothing is known."""
    for phrase, translation in PHRASES.items():
        if (found := re.fullmatch(phrase, cell)) is not None:
            return found.expand(translation) if "\\" in translation else translation
    if re.search(r"\d", cell):
        for name, translation in BASELINES.items():
            cell = cell.replace(name, translation)
    return cell
