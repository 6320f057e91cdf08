#pragma once

// Words before a full stop that ends no sentence: Moses' share/nonbreaking_prefixes, as in sacremoses 0.2. Internal to
// dataset/.

#include <string_view>

namespace mlbench::dataset::text {

// Lists of words, with blanks between them.
struct NonbreakingPrefixes {
  std::string_view always;
  std::string_view before_numbers;  // only where a digit follows
};

inline constexpr NonbreakingPrefixes kEnglishPrefixes{
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col "
    "Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms "
    "Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs i.e rev e.g Rs Nos "
    "Nr Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec",
    "No Art pp"};

inline constexpr NonbreakingPrefixes kGermanPrefixes{
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z a b c d e f g h i j k l m n o p q r s t u v w x y z "
    "II III IV VI VII VIII IX XI XII XIII XIV XV XVI XVII XVIII XIX XX ii iii iv vi vii viii ix xi xii xiii "
    "xiv xv xvi xvii xviii xix xx Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr "
    "Ens Gen Gov Hon Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep "
    "Reps Res Rev Rt Sen Sens Sfc Sgt Sr St Supt Surg Mio Mrd bzw vs usw d.h z.B u.a etc MwSt ggf d.J D.h m.E "
    "vgl I.F z.T sogen ff u.E g.U g.g.A c.-\u00E0-d Buchst u.s.w sog u.\u00E4 Std evtl Zt Chr u.U o.\u00E4 Ltd b.A "
    "z.Zt spp sen SA k.o jun i.H.v dgl dergl Co zzt usf s.p.a Dkr bzgl BSE No Nos Art Nr pp ca Ca 1 2 3 4 5 6 7 8 9 "
    "10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 "
    "47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 "
    "84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99",
    ""};

}  // namespace mlbench::dataset::text
