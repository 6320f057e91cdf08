// Prints the texts of the page, {"file", "line", "text"} a line, for tools/check_sentences.py: string literals that hold a
// blank, and what stands between the tags of an element, inline elements included. A value that is put in is one word.
import {readFileSync, readdirSync} from 'node:fs';
import {dirname, join, relative} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseAst} from 'vite';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const INLINE = new Set(['a', 'b', 'code', 'em', 'i', 'small', 'span', 'strong', 'Link']);
const VALUE = 'Value';

const templateText = node =>
  node.quasis.map((part, at) => part.value.cooked + (at < node.expressions.length ? VALUE : '')).join('');

// The text of an element without its block elements, which stand alone.
function elementText(node) {
  return node.children.map(child => {
    if (child.type === 'JSXText') return child.value;
    if (child.type === 'JSXElement') return INLINE.has(child.openingElement.name.name) ? elementText(child) : '. ';
    if (child.type !== 'JSXExpressionContainer' || child.expression.type === 'JSXEmptyExpression') return '';
    const {expression} = child;
    if (expression.type === 'Literal') return String(expression.value);
    return expression.type === 'TemplateLiteral' ? templateText(expression) : VALUE;
  }).join('');
}

function* textsOf(node, inline) {
  if (node.type === 'JSXElement' || node.type === 'JSXFragment') {
    if (!inline) yield [node.start, elementText(node)];
  } else if (node.type === 'Literal' && typeof node.value === 'string') {
    yield [node.start, node.value];
  } else if (node.type === 'TemplateLiteral') {
    yield [node.start, templateText(node)];
  }
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child?.type === 'string') {
        yield* textsOf(child, node.type === 'JSXElement' && INLINE.has(child.openingElement?.name.name));
      }
    }
  }
}

const sources = join(ROOT, 'dashboard', 'src');
for (const name of readdirSync(sources, {recursive: true}).sort()) {
  if (!/\.tsx?$/.test(name)) continue;
  const code = readFileSync(join(sources, name), 'utf8');
  const file = relative(ROOT, join(sources, name));
  for (const [start, text] of textsOf(parseAst(code, {lang: name.endsWith('x') ? 'tsx' : 'ts'}, name), false)) {
    const words = text.replace(/\s+/g, ' ').trim();
    if (words.includes(' ')) console.log(JSON.stringify({file, line: code.slice(0, start).split('\n').length, text: words}));
  }
}
