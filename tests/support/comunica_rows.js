// The solutions of queries by Comunica: {"sources": [...], "queries": [...]} on standard input, a list of lists of rows on standard output.
const { QueryEngine } = require(process.argv[2] + '/@comunica/query-sparql');

const written = (term) => {
  if (term.termType === 'NamedNode') return `<${term.value}>`;
  if (term.termType === 'BlankNode') return '_:';
  const text = JSON.stringify(term.value);
  if (term.language) return `${text}@${term.language}`;
  const plain = term.datatype.value === 'http://www.w3.org/2001/XMLSchema#string';
  return plain ? text : `${text}^^<${term.datatype.value}>`;
};

async function main(given) {
  const engine = new QueryEngine();
  const found = [];
  for (const query of given.queries) {
    const rows = await (await engine.queryBindings(query, { sources: given.sources })).toArray();
    found.push(rows.map((row) => Object.fromEntries([...row].map(([name, term]) => [name.value, written(term)]))));
  }
  console.log(JSON.stringify(found));
}

let text = '';
process.stdin.on('data', (chunk) => { text += chunk; });
process.stdin.on('end', () => main(JSON.parse(text)).catch((error) => { console.error(error); process.exit(1); }));
