"""Words that are no concepts by themselves, and words without meaning for search."""

import re

# English function words by the class that english.py gives them: closed classes, so that the tagger need not guess.
_CLOSED = {
    "d": "a an the this that these those my your his her its our their some any no every each either neither "
    "all both half another such what which whose whatever whichever",
    "t": "to i you he she it we they me him us them who whom will would shall should can could may might must "
    "cannot not n't there let lets please gonna wanna",
    "b": "be is are was were been being am 's 're 've has have had having get gets got getting gotten",
    "o": "of",
    "p": "in on at by for from with without within into onto upon about above across after against along "
    "among amid around as before behind below beneath beside besides between beyond concerning despite down "
    "during except like near off out outside over past per regarding since than through throughout till "
    "toward towards under underneath until unlike up via versus vs inside opposite",
    "N": "key keys log logs query queries index indexes",
    "y": "nowadays also too just only even still already again ever never always often sometimes usually "
    "definitely totally really",
    "x": "do does did done doing and or but nor so yet if then else because although though while whereas "
    "unless whether when where why how once here now very quite rather almost well much more most less least many few "
    "several enough etc eg ie e.g i.e okay ok yes yeah yep no nope hey hi hello oh wow hmm haha hahaha lol thanks "
    "thank thx sorry sure great awesome cool nice good bye cheers absolutely exactly alright yay whoa woohoo aww yikes "
    "hurrah hallo ah aha alas ugh oops whoops yup nah gosh whereat whereupon by-the-bye by-and-by to-day to-morrow "
    "to-night perfect perfectly right maybe perhaps however therefore thus hence moreover furthermore otherwise "
    "instead meanwhile indeed note see using used use uses following followed according including included given based "
    "being regardless otherwise accordingly alternatively consequently additionally similarly likewise namely i'm "
    "let's don't doesn't isn't can't it's first second third fourth fifth last next previous former latter own same "
    "other others else one ones none nobody nothing something anything everything someone anyone everyone somebody "
    "anybody everybody myself yourself himself herself itself ourselves themselves welcome goodbye congratulations "
    "congrats apologies "
    "today tomorrow yesterday tonight ago soon later earlier",
}
ENGLISH_FUNCTION_WORDS = {word: letter for letter, words in _CLOSED.items() for word in words.split()}

# Modifiers that do not make a concept of the noun they stand before: left out at the beginning of a phrase.
ENGLISH_MODIFIERS = frozenset(
    "able actual additional alternative appropriate available aforementioned bad basic best better big bigger "
    "biggest certain clear close common complete corresponding current desired different difficult direct "
    "distinct early easy entire equivalent exact existing extra fewer final fine following frequent full "
    "further general given good great greater greatest high higher highest huge ideal identical important "
    "individual initial large larger largest late likely little long longer longest low lower lowest main "
    "major mere minor modern multiple necessary new newer newest next nice normal numerous obvious old older "
    "oldest only opposite ordinary original overall own particular perfect plain poor popular possible "
    "potential preceding present previous prior proper real reasonable recent relevant remaining required "
    "resulting right rough same separate short shorter significant similar simple single slight small smaller "
    "smallest special specific specified standard strong subsequent successful sufficient suitable sure total "
    "typical unable unique unknown usual various vast whole wide worse worst wrong young super really very so "
    "too kind sort type couple lot bit bunch number series lots "
    # Praise and blame: "fantastic session" is a session.
    "amazing awesome fantastic lovely fun favorite favourite fave wonderful excellent awful terrible horrible killer epic "
    "latest gorgeous incredible stunning nicest cool solid decent cute adorable exciting interesting known certain quick "
    "extra enormous tremendous assorted additional "
    # Words of opinion: "useless font", "pertinent command".
    "useless useful pertinent elaborate notable authentic helpful handy clever strange weird obscure acceptable adequate "
    "applicable alleged apparent casual characteristic classical comparable complex complicated conceivable considerable "
    "convenient decisive detailed dubious easier easiest effective efficient essential excessive extensive fascinating "
    "feasible flexible foregoing genuine harder hardest imaginable intended legitimate meaningful minimal moderate "
    "noteworthy occasional optional outstanding peculiar permissible plausible predefined profound prominent "
    "questionable reliable remarkable respective robust sensible serious simpler simplest sophisticated stupid "
    "substantial suspicious tedious thorough tidy trivial undesirable unexpected unnecessary unsupported unusual "
    "unwanted valid valuable visible worthwhile".split()
)

# What a modifier makes one word with: "low level", "long term".
ENGLISH_MEASURES = frozenset(
    "level term end side time way class quality speed scale range hand order tech rate cost density resolution tier "
    "grade power pass frequency latency priority memory energy".split()
)
# Ends of compound adjectives: "APT-based", "table-like".
ENGLISH_ADJECTIVE_ENDS = tuple(
    "-based -free -like -only -wide -specific -aware -oriented -friendly -ready -related -style -scope -date -driven "
    "-capable -compatible -compliant -dependent -independent -enabled -level -size -sized -safe -able -long -old "
    "-made -known -written -defined -provided -generated -supplied -born -led -shaped -speaking -era -bound -backed -owned "
    "-themed -language -inspired -trained -educated -funded -headed -eyed -haired -piece".split()
)

# Given names that are other words too: part of the name that follows them at the beginning of a sentence.
ENGLISH_GIVEN_NAMES = frozenset(
    "abel amber art ash autumn barb basil bear bill billy blaze bob bobby brook buck bud buddy burr candy cap "
    "carol cash chance charity chase cher chip chuck clay cliff clint cole colt cook coral crystal daisy dale "
    "dawn dean dick dirk don drake drew duke earl ed ella eve faith fern finn flora ford forest frank gene "
    "ginger glen grace grant gray guy hank harmony harry hazel heath heather herb holly hope hunter iris ivy "
    "jack jade jasmine jay jean jerry jersey jewel jimmy joe john josh joy june april august summer major king "
    "lance lane lee lily lily mack marina mark mars martin mason max may melody mercy merry mike miles miller "
    "myrtle nick norm olive opal parker patience pat patsy pearl peg penny pepper percy perry peter pierce "
    "piper poppy porter prince queenie rainbow randy ray red reed rich river rob robin rock rod roger rose "
    "rosemary rowan ruby rusty ruth sage sally sandy savannah scarlet skip sky skye sonny star stella sterling "
    "stone storm sue susan taylor ted terry tiffany tom tony trinity troy tucker tyler van vera vic victor "
    "viola violet wade walker wally ward warren wayne webb wendy will willow wood woody wren zane".split()
)
# Those that hardly ever begin a sentence as another word.
ENGLISH_SURE_NAMES = frozenset("bob bobby debian gene hank jack josh nick pat rob ted tony tom".split())
# Nouns that are part of a name with "of" after them: "Duke of Wellington".
ENGLISH_NAME_HEADS = frozenset(
    "abbey academy archbishop archdiocese archduke bank baron battle bay bishop cape church college count "
    "countess county department diocese duchess duchy duke earl empire gulf house institute isle isles kingdom "
    "king lord marquess ministry museum order prince princess principality province queen republic school sea "
    "siege strait sultan treaty university viscount".split()
)
# Small words between the parts of a person's name: "Ludwig van Beethoven", "Juana Inés de la Cruz".
ENGLISH_NAME_PARTICLES = frozenset(
    "af al ap av bin bint binti da dal das de de' de’ degli dei del della delle den der des di dos du ferch "
    "ibn la las le los ter van verch von y zu zum zur".split()
)
# Words after "the" in the name of a ruler or a saint.
ENGLISH_EPITHETS = frozenset(
    "Apostate Bald Bearded Black Blind Bold Brave Catholic Child Confessor Conqueror Cruel Devout Elder Fair Fat "
    "Fearless Fowler Generous Gentle Good Great Handsome Holy Impaler Just Lame Learned Lion Lionheart Magnanimous "
    "Magnificent Martyr Merry Navigator Old Peaceful Pious Posthumous Proud Prudent Quarrelsome Red Rich Saint Short "
    "Silent Simple Stammerer Stern Strong Tall Terrible Unready Usurper Valiant Victorious Wise Young Younger".split()
)
# Ranks that follow a name after a comma: "Henry Stafford, 1st Baron Stafford".
ENGLISH_RANKS = (
    "Abbess Abbot Archbishop Archduchess Archduke Baron Baroness Bishop Count Countess Dauphin Dauphine Duchess Duke "
    "Earl Elector Electress Emir Emperor Empress Infanta Infante King Lady Landgrave Landgravine Lord Marchioness "
    "Margrave Margravine Marquess Marquis Prince Princess Queen Sultan Tsar Tsarina Viscount Viscountess"
).split()
# Titles left out before a full name, so that "Professor Ada Byron" and "Ada Byron" are one entity.
ENGLISH_TITLES = frozenset(
    "admiral ambassador captain chairman chancellor commander congressman corporal dame detective doctor governor "
    "inspector lieutenant mayor minister officer president professor representative senator sergeant sheriff sir".split()
)
# What somebody is called to his face, and calls: no name where it stands alone.
ENGLISH_ADDRESSES = frozenset(
    "alas bravo esq esquire excellency farewell goodbye hallo hello highness holiness hullo hurrah ladyship lordship madam "
    "madame mademoiselle majesty messrs mister monsieur signor signora señor señora sir sire".split()
)
# What persons are, written with a small letter before their names except at the beginning of a sentence.
ENGLISH_OCCUPATIONS = frozenset(
    "actor actress architect artist astronaut author biologist chef chemist coach comedian composer conductor critic "
    "dancer dear designer director drummer economist editor engineer fellow filmmaker footballer former goalkeeper "
    "guitarist historian host inventor journalist lawyer linguist magician mathematician model musician novelist "
    "painter "
    "philosopher photographer physicist pianist pitcher playwright poet producer programmer psychologist quarterback "
    "rapper researcher scientist sculptor singer songwriter striker student teacher violinist vocalist winner writer "
    "brother daughter father friend husband mother sister son wife baseballer bassist boxer businessman businesswoman "
    "conservative cricketer diplomat golfer illustrator jockey judge lawmaker nominee nobleman officer player poetess "
    "politician presenter sailor soldier songstress sportsman sportswoman swimmer trader unionist wrestler".split()
)
# Modifiers that begin names of places: "New York", "Long Island".
ENGLISH_PLACE_ADJECTIVES = frozenset("big grand great high little long low lower new old upper".split())

# Nouns that say nothing at the end of a phrase, and verbs that look like nouns there: left out.
ENGLISH_HEADS = frozenset(
    "advantage advantages amount amounts approach approaches attempt beginning bit bunch case cases chance "
    "chances choice choices circumstance circumstances consequence consequences consideration considerations "
    "couple course deal degree detail details difference differences end example examples exception extent "
    "fact facts fun guy guys idea ideas instance instances issue issues item items kind kinds lot lots luck "
    "majority manner matter matters meaning means moment moments need needs note notes one ones people person "
    "place places plenty possibility possibilities problem problems purpose purposes question questions reason "
    "reasons respect rest section sections sense series situation situations something sort sorts stuff thing "
    "things today tomorrow tonight total use uses usage variety way ways while work works yesterday chapter "
    "chapters second seconds minute minutes hour hours day days night nights week weeks weekend weekends month "
    "months year years morning evening afternoon following description descriptions look looks help thanks "
    "vibe vibes spot spots reminder reminders addition additions time times advancement advancements move "
    "moves option options sound thought thoughts recommendation recommendations effort efforts aspect aspects "
    "air manner manners attempt attempts occasion occasions".split()
)
# Only after an adjective: "different type", but "data type".
ENGLISH_WEAK_HEADS = frozenset(
    "combination effect effects feature features form forms number numbers order orders part parts point "
    "points result results set sets state states term terms time times type types value values version "
    "versions".split()
)

# Names of units of time and the like: no entity on their own, though they are written with a capital letter.
ENGLISH_UNITS = frozenset(
    "january february march april may june july august september october november december jan feb mar apr "
    "jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue wed "
    "thu fri sat sun am pm a.m. p.m. ad bc ce bce mr mrs ms dr prof st jr sr time note tip warning caution "
    "important example examples ok hi hey yes no table figure chapter section appendix part page true false "
    "null description name notes see also synopsis options parameters listing exhibit id abschnitt kapitel tabelle abbildung "
    "anhang stave volume vol act scene canto fig tailpiece "
    "frontispiece heading illustration illustrator index contents preface op cit ibid al".split()
)
# Units of measures: no part of a name, "512 MB RAM".
MEASURES = frozenset("kb mb gb tb kib mib gib tib hz khz mhz ghz kw mw gw kwh kbps mbps gbps fps dpi px rpm".split())
# Those that stand before a noun without belonging to it: "7 PM show".
ENGLISH_CLOCK = frozenset("am pm a.m. p.m. ad bc ce bce mon tue wed thu fri sat sun".split())

# Japanese nouns that only carry grammar ("formal nouns"), in Sudachi's normalised form and as written.
JAPANESE_HEADS = frozenset(
    "事 物 者 為 時 所 様 訳 筈 積もり 儘 通り 方 上 中 下 内 間 際 場合 他 等 程 位 度 毎 点 前 後 次 以下 "
    "以上 以外 以前 以後 全て 全部 一部 最初 最後 今 今日 明日 昨日 今回 前回 次回 例 例え 何 誰 何処 此処 "
    "其処 此れ 其れ 彼れ 自分 人 皆 こと もの ため とき ところ よう わけ はず つもり まま とおり ほう うえ "
    "なか うち あいだ ほか など ほど くらい ごと これ それ あれ "
    # As they are written in old texts; Sudachi has them as persons and places.
    "マア サア ネエ ヤア ホラ".split()
)

# Words after a person's name that are no part of it: forms of address, roles and works.
JAPANESE_AFTER_PERSON = frozenset(
    "氏君様殿嬢翁著作編訳画役賞派系家杯展論説像邸卿公王帝妃宮院伯侯爵記伝碑墓号流版製個宅側達等共方戦"
)

# What ends the names of Japanese places and institutions: 金閣寺, 東京駅, 伊勢神宮.
JAPANESE_NAME_ENDS = frozenset(
    "寺 寺院 神社 大社 神宮 宮 城 堂 院 園 公園 庭園 駅 空港 港 橋 塔 館 山 岳 峠 川 河 湖 島 岬 半島 大学 高校 学園 "
    "美術館 博物館 図書館 病院 銀行 鉄道 電鉄 新聞 通り 祭 賞".split()
)

# Chinese words without meaning for search beyond what their part of speech already says.
CHINESE_STOP_WORDS = frozenset(
    "的 了 着 过 地 得 之 是 有 在 和 与 及 或 而 但 被 把 将 对 从 到 于 以 为 由 向 给 让 使 就 都 也 还 又 "
    "再 很 更 最 太 不 没 没有 这 那 这个 那个 这些 那些 这样 那样 哪 哪个 哪些 什么 怎么 怎样 如何 为什么 谁 "
    "吗 呢 吧 啊 我 你 您 他 她 它 我们 你们 他们 她们 它们 自己 一 一个 一些 一种 个 们 所 其 其中 可以 能 "
    "会 要 应 应该 必须 如果 因为 所以 但是 并 并且 而且 虽然 然后 则 若 即 等 等等 上 下 中 里 时 后 前 请 "
    "例如 比如 比 只 只有 才 仅 各 每 某 该 此 另 其他 其它 除了 通过 根据 按照 关于 以及 或者 还是 不是 就是 "
    "也是".split()
)
CHINESE_HEADS = frozenset(
    "时候 情况 方面 时间 问题 部分 东西 地方 人们 方式 方法 结果 原因 例子 内容 过程 意思 事情 下面 上面 以下 以上 "
    "曾任 现任 前任 前面 后面 里面 外面 之间 之后 之前 同时 目前 现在 今天 明天 昨天 当前 全部 所有 一般 可能 其中 "
    "别人 大家 自己 程度 时 人 年 月 日 时期 种 个 者 "
    # What a text says of itself and of its own parts: 本法规定, 国家有关规定.
    "有关 相关 本法 本条 本款 本章 本节 本案 本市 本省 本县 本区 本院 本会 本网 前款 上款 前条 本条例 本办法 本规定".split()
)

# The commonest family names: an unknown word that begins with one is taken for a person.
CHINESE_SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾萧肖田董袁潘于蒋蔡余杜"
    "叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺"
    "顾毛郝龚邵万钱严覃武戴莫孔向汤張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭"
)

# Japanese and Chinese words that fit everywhere: a compound of nothing else (提案手法, 重要优势) is no concept.
CJK_GENERIC = frozenset(
    "一覧表 大きさ いくつ お知らせ 参考情報 訳者注 編者注 入力者注 利用法 使用法 使用方法 作業中 解决方案 作用 "
    "既存 提案 新規 各 全 同 本 当該 最終 追加 使用 利用 基本 推奨 適用 直接 全体 個別 主要 重要 必要 可能 "
    "関連 従来 独自 最新 最高 最大 最小 最適 一般 通常 通称 特定 同一 実際 対象 内容 手法 方法 方式 構成 結果 "
    "評価 比較 実験 検証 対応 場面 場合 要件 選択 基準 効果 影響 課題 問題 種類 状況 状態 方針 目的 理由 原因 "
    "特徴 品質 概要 詳細 説明 例 参考 情報 情報源 関係 部分 要素 事項 項目 設計 実装 内部 外部 総数 数 量 値 "
    "数値 化 強み 弱み 強さ 弱さ 考え 自体 付近 側 側面 観点 点 面 段階 向上 低下 増加 減少 可能性 関係性 "
    "必要性 重要性 方向性 機能 処理 作業 活動 経験 意味 意見 考慮 検討 分析 確認 開始 終了 実施 実行 導入 提供 "
    "対策 新 旧 老 不同 重要 主要 明显 相关 关键 具体 各种 多种 一定 一般 特定 优势 影响 观点 场景 领域 成员 "
    "专业 方面 因素 内容 情况 问题 部分 方法 方式 结果 过程 作用 意义 特点 关系 条件 水平 程度 能力 效果 功能 "
    "要求 目标 目的 任务 活动 工作 信息 数量 变化 不断 有效 全面 整体 个人 基本 根本 直接 完整 良好 优秀 高级 "
    "高品质 强力 措施 中心 规划 主题 全部 其它 其他 其余 大量 少量 多数 少数 同类 类似 以往 传统 现有 现行 "
    "最终 最后 最大 最高 重要性 可能性 必要性 负面 正面 反应 反應 重新 处理 進行 崇高 事業 事业 成果 表现 出色".split()
)
# What a compound may begin with (重要基础设施) or end with (赤道付近) without being another thing.
CJK_MODIFIERS = frozenset(
    "重要 主要 著名 新 旧 舊 全新 主な 最新 最大 最高 最終 既存 提案 従来 新規 推奨 同 当該 該 各 某 不同 各种 "
    "各種 有关 有關 相关 相關 现有 現有 现行 現行 完整 明显 明顯 "
    "有名 大手 通称 俗称 所谓 所謂 上述 前述 其他 其它 当时 當時 当時 崇高 伟大 偉大 优秀 優秀 一般 普通 具体 具體 "
    "关键 關鍵 所属 所屬 所在 大多数 大多數 多个 多個 多种 多種 若干 零星 少数 少數 个别 個別 任意 任何 整个 整個 全部 "
    "比較的 多数 複数 少数 大規模 小規模 任意 単純 典型 典型的 一連 全ての すべて".split()
)
# After the number of a part of a book.
CJK_NUMBERINGS = frozenset("章 節 节 部 編 项 項 条 條 表 図 图 圖 頁 页 巻 卷".split())
# Actions whose agent or recipient stands before them: 由国务院批准.
CHINESE_AFTER_AGENT = frozenset(
    "报告 规定 处罚 批准 备案 负责 决定 申请 通知 公布 制定 起诉 投诉 举报 说明 发布".split()
)
CJK_TAILS = frozenset(
    "全体 自体 付近 周辺 一帯 各地 固有 最大 最小 最高 最低 後 前 以降 以前 以来 以外 以内 内 外 間 中 側 時 当時 "
    "自动 手动 自動 手動 调用 調用 由来 経由 以外 用 製 同士 なし あり 込み 無し 済み 済 対応 あたり 不要 可能 必要 推奨 向け "
    "当中 當中 之中 图中 圖中 期间 期間 旗下 附近 一带 一帶 以下 以上 左右 等等 上下 前後 前后 之间 之間 以后 以後 "
    "以来 以來 下 上 里 裡".split()
)
# Ends of words that say how something is or is done: 事実上, 多層的.
CJK_ADVERBIAL = frozenset("的 上 風 気味 がち 次第 毎 ごと 通り 限り 度 性".split())
# Who somebody is to another, before his name: 弟オットー.
CJK_KIN = CJK_MODIFIERS | frozenset(
    "弟 兄 姉 妹 父 母 妻 夫 息子 娘 祖父 祖母 長男 次男 長女 次女 元 前 故 現 叔父 伯父 叔母 长子 長子 次子 幼子 "
    "女儿 女兒 儿子 兒子 妻子 丈夫 父亲 父親 母亲 母親 "
    "哥哥 弟弟 姐姐 妹妹 队友 隊友 好友 友人 先生 女士 同学 同學 同事 弟子 学生 學生".split()
)

# Placeholders in a manual: "--output=FILE", "foo".
PLACEHOLDERS = frozenset(
    "FILE FORMAT WORD NUM NUMBER DIR DIRECTORY SIZE NAME VALUE STRING LIST PATH PATTERN TEXT KEY STYLE WHEN COLS "
    "SUFFIX PREFIX COMMAND ARGUMENT ARG OPTION "
    "USER GROUP HOST PORT URL TYPE MODE EXPR REGEXP SOURCE DEST TARGET N M X Y foo bar baz qux quux foobar "
    "fooBARbaz Foo Bar Baz FOO BAR BAZ XXX YYY ZZZ xxx "
    "yyy zzz abc xyz ABC XYZ lorem ipsum TODO FIXME TBD untitled example.com hogehoge hoge fuga piyo "
    "firstName lastName firstname lastname".split()
)

_MADE_UP = re.compile(
    r"(?:\w*[-_.])?(?:lib)?(?:foo|foobar|baz|qux|hoge|xyz|xxx|nnn)x?(?:[-_.].*)?|foo_\w*", re.IGNORECASE
)


# myButton, MyButton, my_file, self.items, this.state; MySQL is a name.
_OF_SOMEBODY = re.compile(r"[mM]y(?!SQL|Space)[A-Z_]\w*|(?:self|this)\.\w.*")
# what_, n_s1, part.1.e.5.strings, a.8, m.c, e-71, myfile.txt, file.txt.
_PIECE = re.compile(
    r"[^_].*_|[a-z]\w?_[a-z]?\d+|[A-Za-z]{2,}\.[\w-]{1,2}\.[\w.-]+|[A-Za-z]\.(?:[a-z][\w-]{3,}|\d{1,3}(?:\.\d{1,3})*)"
    r"|[a-z]\.[a-z]|[a-z]-(?:[a-z]|\d{1,3})|x[\da-f]{2}"
    r"|(?:my|your|the|an?_|some)?_?(?:code|file|document|program|image|script|data|test|example|sample|input|output)\d*\.[a-z]\w{0,4}",
    re.ASCII,
)


def is_placeholder(word: str) -> bool:
    """Whether a word is a placeholder (foo, foo-data, libfoo.so, XYZ, file.txt) or a fragment (what_, a.8)."""
    return word in PLACEHOLDERS or any(pattern.fullmatch(word) for pattern in (_MADE_UP, _PIECE, _OF_SOMEBODY))
