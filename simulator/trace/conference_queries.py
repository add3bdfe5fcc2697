"""The five queries of seeds/000, in CQELS-QL, with the prefixes that the paper leaves out.

Repaired: quotes of names are quotes (``$Name$`` there), the aggregate of Q5 stands in brackets, its `loc2` is `?loc2`,
and Q4 names the floor plan that it asks.
"""

FLOOR_PLAN = "http://deri.org/floorplan/"
STREAM = "http://deri.org/streams/rfid"
LV = "http://deri.org/vocab/lv#"
NAME = "$Name$"
"""The placeholder for the name of an author."""

PREFIXES = f"""PREFIX lv: <{LV}>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
PREFIX dcterms: <http://purl.org/dc/terms/>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX swrc: <http://swrc.ontoware.org/ontology#>
"""
_PATTERNS = {
    "q1": """SELECT ?locName ?locDesc
FROM NAMED <http://deri.org/floorplan/>
WHERE {
  STREAM <http://deri.org/streams/rfid> [NOW] {?person lv:detectedAt ?loc}
  GRAPH <http://deri.org/floorplan/> {?loc lv:name ?locName. ?loc lv:desc ?locDesc}
  ?person foaf:name "$Name$". }
""",
    "q2": """CONSTRUCT {?person1 lv:reachable ?person2}
FROM NAMED <http://deri.org/floorplan/>
WHERE {
  STREAM <http://deri.org/streams/rfid> [NOW]      {?person1 lv:detectedAt ?loc1}
  STREAM <http://deri.org/streams/rfid> [RANGE 3s] {?person2 lv:detectedAt ?loc2}
  GRAPH <http://deri.org/floorplan/>              {?loc1 lv:connected ?loc2} }
""",
    "q3": """SELECT ?coAuthName
FROM NAMED <http://deri.org/floorplan/>
WHERE {
  STREAM <http://deri.org/streams/rfid> [TRIPLES 1] {?auth lv:detectedAt ?loc}
  STREAM <http://deri.org/streams/rfid> [RANGE 5s] {?coAuth lv:detectedAt ?loc}
  { ?paper dc:creator ?auth. ?paper dc:creator ?coAuth.
    ?auth foaf:name "$Name$". ?coAuth foaf:name ?coAuthName}
  FILTER (?auth != ?coAuth) }
""",
    "q4": """SELECT ?editorName
FROM NAMED <http://deri.org/floorplan/>
WHERE {
  STREAM <http://deri.org/streams/rfid> [TRIPLES 1] {?auth lv:detectedAt ?loc1}
  STREAM <http://deri.org/streams/rfid> [RANGE 15s] {?editor lv:detectedAt ?loc2}
  GRAPH <http://deri.org/floorplan/> {?loc1 lv:connected ?loc2}
  ?paper dc:creator ?auth. ?paper dcterms:partOf ?proceeding.
  ?proceeding swrc:editor ?editor. ?editor foaf:name ?editorName.
  ?auth foaf:name "$Name$" }
""",
    "q5": """SELECT ?loc2 ?locName (count(distinct ?coAuth) as ?noCoAuths)
FROM NAMED <http://deri.org/floorplan/>
WHERE {
  STREAM <http://deri.org/streams/rfid> [TRIPLES 1] {?auth lv:detectedAt ?loc1}
  STREAM <http://deri.org/streams/rfid> [RANGE 30s] {?coAuth lv:detectedAt ?loc2}
  GRAPH <http://deri.org/floorplan/> {?loc2 lv:name ?locName. ?loc2 lv:connected ?loc1}
  {?paper dc:creator ?auth. ?paper dc:creator ?coAuth. ?auth foaf:name "$Name$"}
  FILTER (?auth != ?coAuth)}
GROUP BY ?loc2 ?locName
""",
}
QUERIES = {number: PREFIXES + text for number, text in _PATTERNS.items()}
"""By number."""
