"""Japanese and Chinese names of people, places and products; forms of one character that are alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.text.letters import modern, narrow, simplified
from pg_graphrag.text.words.concepts import concepts
from pg_graphrag.text.words.search_terms import lexical

pytest.importorskip("opencc")
pytest.importorskip("sudachipy")
pytest.importorskip("jieba")


def names(text: str, language: str) -> set[str]:
    return {concept.name for concept in concepts(text, language)}


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("金閣寺は京都市北区にある寺院です。", {"金閣寺", "京都市北区"}, {"金閣"}),
        ("東京タワーは内藤多仲が設計しました。", {"東京タワー", "内藤多仲"}, {"藤多", "藤多仲"}),
        ("足利義満が建てました。", {"足利義満"}, {"義満"}),
        ("清水寺と東大寺と法隆寺を訪れた。", {"清水寺", "東大寺", "法隆寺"}, set()),
        ("兼六園と銀閣寺と大阪城公園", {"兼六園", "銀閣寺", "大阪城公園"}, {"兼六"}),
        ("伊勢神宮と出雲大社は有名な神社だ。", {"伊勢神宮", "出雲大社"}, {"有名"}),
        ("山田太郎さんは株式会社東芝の社員です。", {"山田太郎", "東芝"}, {"太郎"}),
        ("宮崎駿監督の映画「千と千尋の神隠し」", {"宮崎駿"}, {"宮崎"}),
        ("夏目漱石の『吾輩は猫である』を読む。", {"夏目漱石", "吾輩は猫である"}, set()),
        ("富士通のスーパーコンピュータ「富岳」", {"富士通", "富岳"}, set()),
        ("任天堂のNintendo Switchとプレイステーション5", {"任天堂", "Nintendo Switch", "プレイステーション5"}, set()),
        ("東京2020年とバージョン17", {"東京"}, {"東京2020"}),
        ("渋沢栄一は第一国立銀行を設立した。", {"渋沢栄一", "第一国立銀行"}, set()),
        ("鈴木一郎と佐藤花子が三菱UFJ銀行で働く。", {"鈴木一郎", "佐藤花子", "三菱UFJ銀行"}, set()),
        ("ＰｏｓｔｇｒｅＳＱＬ　１７を使う。", {"PostgreSQL", "PostgreSQL 17"}, set()),
        ("ﾌﾟﾚｲｽﾃｰｼｮﾝ５を買う。", {"プレイステーション5"}, set()),
        ("滝口哲也² 有木康雄² 岩崎雄介", {"滝口哲也", "有木康雄", "岩崎雄介"}, set()),
        ("具体的な複雑性と党員約9万人", set(), {"具体的", "複雑性", "党員約9万人"}),
        ("提案手法は赤道付近のクエリ処理", {"クエリ処理"}, {"提案手法", "赤道付近"}),
        ("4段階パイプラインの処理", {"4段階パイプライン"}, set()),
        ("弟オットーが来た", {"オットー"}, {"弟オットー"}),
        ("レスター・B・ピアソンの提唱", {"レスター・B・ピアソン"}, {"レスター", "ピアソン"}),
        ("ジョン・スミスと「サイラス・マーナー」", {"ジョン・スミス", "サイラス・マーナー"}, {"スミス", "マーナー"}),
        ("カナダ・アメリカの旅", {"カナダ", "アメリカ"}, {"カナダ・アメリカ"}),
        ("木村摂津守と根津欽次郎の船", {"木村摂津守", "根津欽次郎"}, {"木村摂", "根津欽"}),
        ("矢上十郎兵衛は二万坪の庭の参考情報を見た。", {"矢上十郎兵衛"}, {"矢上十郎", "二万坪", "参考情報"}),
        ("開発者のDavid Heinemeier\nHanssonさん", {"David Heinemeier Hansson"}, {"Hansson"}),
        ("マア村の漁師と八千米以上の空（訳者注）", set(), {"マア", "八千", "訳者注"}),
        ("作者 高橋一郎は Leiden アルゴリズムを使う", {"Leiden アルゴリズム"}, {"作者 高橋一郎"}),
    ],
)
def test_japanese_names(text: str, wanted: set[str], unwanted: set[str]) -> None:
    detected = names(text, "ja")
    assert wanted <= detected
    assert not unwanted & detected


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("雍和宫位于北京市东城区，少林寺位于河南省登封市。", {"雍和宫", "少林寺", "河南省登封市"}, set()),
        ("钱钟书写了《围城》，鲁迅写了《阿Q正传》。", {"钱钟书", "围城", "鲁迅", "阿Q正传"}, set()),
        ("任正非创立了华为技术有限公司。", {"任正非", "华为技术有限公司"}, set()),
        ("資料庫系統由國立臺灣大學開發。", {"資料庫系統", "國立臺灣大學", "臺灣大學"}, set()),
        ("馬英九曾任中華民國總統。", {"馬英九", "中華民國總統"}, {"英九曾"}),
        ("故宮博物院收藏了乾隆皇帝的書畫。", {"故宮博物院", "乾隆皇帝"}, set()),
        ("这个城市的索引和连贯性。", set(), {"城市", "索引", "连贯", "连贯性"}),
        ("影响公共交通规划和利用实体间的关系", {"公共交通规划"}, {"影响公共交通规划", "利用实体"}),
        ("研究黑格尔和服務", {"黑格尔"}, {"研究黑格尔"}),
        ("乔治·华盛顿和约翰·格雷夫·锡姆科", {"乔治·华盛顿", "约翰·格雷夫·锡姆科"}, {"格雷夫"}),
        ("黄品源主演的电影", set(), {"黄品源主演"}),
        ("星官: 土司空; 英译: Master of Constructions", {"Master of Constructions"}, {"Master", "Constructions"}),
        ("住在佛羅倫斯的醫生", {"佛羅倫斯"}, {"佛羅倫"}),
        (
            "依照本法规定和国家有关规定，向海事管理机构报告。",
            {"海事管理机构"},
            {"本法规定", "国家有关规定", "海事管理机构报告"},
        ),
        ("在本行政区域内，直接责任人员处五万元罚款。", {"行政区域"}, {"本行政区域", "责任人员处"}),
        ("2019-nCoV 是一种病毒", {"2019-nCoV"}, {"nCoV"}),
        ("一个 OpenAI-Compatible 的请求", set(), {"OpenAI-Compatible"}),
        ("再倒入 10ml 食用油", set(), {"ml 食用油"}),
        ("重要基础设施毫无疑问", {"基础设施"}, {"重要基础设施", "毫无疑问"}),
        ("作業系統的檔案系統和記憶體管理。", {"作業系統", "檔案系統"}, set()),
        (
            "iPhone 15 Pro搭载A17芯片，使用ＰｏｓｔｇｒｅＳＱＬ　１７。",
            {"iPhone 15 Pro", "A17", "PostgreSQL 17"},
            set(),
        ),
    ],
)
def test_chinese_names(text: str, wanted: set[str], unwanted: set[str]) -> None:
    detected = names(text, "zh")
    assert wanted <= detected
    assert not unwanted & detected


@pytest.mark.parametrize(
    ("traditional", "simple"),
    [
        ("資料庫系統", "资料库系统"),
        ("國立臺灣大學", "国立台湾大学"),
        ("乾隆皇帝", "乾隆皇帝"),
        ("檔案權限", "档案权限"),
        ("馬英九", "马英九"),
        ("電腦網路", "电脑网路"),
    ],
)
def test_traditional_and_simplified_chinese_have_the_same_terms(traditional: str, simple: str) -> None:
    assert lexical(traditional, "zh").split() == lexical(simple, "zh").split()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("廣島縣", "広島県"),
        ("經濟產業省", "経済産業省"),
        ("舊字體", "旧字体"),
        ("東京大學圖書館", "東京大学図書館"),
        ("齋藤", "斎藤"),
        ("渡邊", "渡辺"),
        ("澤田", "沢田"),
        ("藝術", "芸術"),
        ("坂本龍馬", "坂本竜馬"),
    ],
)
def test_old_and_new_japanese_characters_have_the_same_terms(old: str, new: str) -> None:
    assert lexical(old, "ja").split() == lexical(new, "ja").split()


def test_a_concept_keeps_the_characters_of_its_text() -> None:
    text = "國立臺灣大學とﾌﾟﾚｲｽﾃｰｼｮﾝ"
    assert "國立臺灣大學" in names("國立臺灣大學的資料庫", "zh")
    assert [text[c.start : c.end] for c in concepts(text, "ja")][-1] == "ﾌﾟﾚｲｽﾃｰｼｮﾝ"


@given(st.text(st.sampled_from("ａＺ０９＿ｱﾊﾟﾞﾟｶﾞー漢字仮名aZ09 。\n"), max_size=60))
def test_narrow_says_where_each_character_came_from(text: str) -> None:
    plain, origins = narrow(text)
    places = origins or list(range(len(text) + 1))
    assert len(places) == len(plain) + 1
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == len(text)
    for at, character in enumerate(plain):
        assert narrow(text[places[at] : places[at + 1]])[0] == character


@given(st.text(st.characters(min_codepoint=0x3400, max_codepoint=0x9FFF), max_size=40))
@settings(max_examples=200)
def test_every_character_stays_at_its_place(text: str) -> None:
    assert len(simplified(text)) == len(modern(text)) == len(text)
