// Makes the template of the page: script and style in one HTML file, without data.
//   node build.mjs TEMPLATE
import {build} from 'esbuild';
import {createHash} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

const here = name => fileURLToPath(new URL(name, import.meta.url));
const bundled = async entry => {
  const made = await build({
    entryPoints: [here(entry)], bundle: true, minify: !process.env.PLAIN, write: false, format: 'iife',
    target: 'es2022', legalComments: 'none', charset: 'ascii', logLevel: 'warning',
    outfile: 'unused', loader: {'.html': 'text'},
  });
  return made.outputFiles[0].text.trim();
};

const script = await bundled('src/main.js');
const style = await bundled('src/page.css');
// Only this script runs, and nothing is loaded: whatever a ledger's texts hold.
const hash = createHash('sha256').update(script).digest('base64');
const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; ` +
  `img-src data: blob:; base-uri 'none'; form-action 'none'`;
const page = readFileSync(here('src/page.html'), 'utf8')
  .replace('the policy', () => policy)
  .replace('/* the style */', () => style)
  .replace('/* the script */', () => script);
writeFileSync(process.argv[2], page);
