"""Thirty queries over a small graph of people and topics, for whoever answers queries from fragments."""

E = "http://e/"
PREFIX = f"PREFIX : <{E}> "
SOCIAL = """:jazz :by :ann, :bob . :rock :by :bob, :cyd . :folk :by :dan .
:ann :n 10 . :bob :n 20 . :cyd :n 30 . :ann :knows :bob . :bob :knows :cyd . :cyd :knows :ann . :dan :n 40 .
:ann :name "Ann" . :bob :name "Bob"@en . :cyd :name "007" . :bob :boss :cyd"""
QUERIES = """
SELECT * { ?x :by ?y }
SELECT * { ?x :by ?y . ?y :n ?n }
SELECT * { VALUES ?x { :jazz } ?x :by ?y . ?y :n ?n }
SELECT * { VALUES (?x ?y) { (:jazz :ann) (:rock UNDEF) } ?x :by ?y . ?y :n ?n }
SELECT * { ?x :by ?y OPTIONAL { ?y :knows ?z . ?z :n ?n } }
SELECT * { ?x :by ?y OPTIONAL { ?y :name ?name } ?y :n ?n FILTER(?n > 15) }
SELECT * { ?x :by ?y MINUS { ?y :knows :cyd } }
SELECT * { ?x :by ?y FILTER NOT EXISTS { ?y :knows ?z . ?z :knows ?y } }
SELECT * { ?x :by ?y FILTER EXISTS { ?y :boss ?b } }
SELECT * { { ?x :by :ann } UNION { ?x :by :cyd } ?x :by ?other }
SELECT ?x (COUNT(*) AS ?c) { ?x :by ?y } GROUP BY ?x
SELECT * { ?y :n ?n { SELECT ?y (COUNT(?x) AS ?c) { ?x :by ?y } GROUP BY ?y } }
SELECT * { ?y :name "Ann" { SELECT ?y { ?x :by ?y } ORDER BY ?x ?y LIMIT 2 } }
SELECT * { :ann :knows+ ?y }
SELECT * { :ann :knows* ?y . ?y :n ?n }
SELECT * { ?x ^:by/:n ?n }
SELECT * { ?x (:by|:boss) ?y }
SELECT * { ?x !(:by|:n) ?y }
SELECT * { :ann :knows? ?y }
SELECT * { ?x ?p ?y }
SELECT * { :bob ?p ?y }
SELECT * { ?x ?p :cyd . ?x :n ?n }
SELECT * { ?x :name ?name BIND(STR(?name) AS ?s) FILTER(STRLEN(?s) = 3) }
SELECT DISTINCT ?n { ?x :by/:n ?n }
SELECT * { ?x :by ?y . ?y :nothing ?n }
SELECT * { { ?x :by ?y OPTIONAL { ?y :boss ?b } } ?b :n ?n }
SELECT * { ?b :n ?n { ?y :n ?m OPTIONAL { ?y :boss ?b } } }
SELECT (SUM(?n) AS ?sum) { :jazz :by ?y . ?y :n ?n }
SELECT * { ?y :n 20 ; :name ?name ; :knows [ :n ?m ] }
SELECT * { ?x :by ?y . ?y :name ?name . ?z :name ?name . ?z :n ?n }
""".strip().splitlines()
