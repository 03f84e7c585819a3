import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import MiniSearch from 'minisearch'
import { bundlePage, type Files } from '../actors/console/console-page.ts'
import { productTitle } from '../brand.ts'
import { programFile } from '../host/program-files.ts'
import { addressOf, chapters, nameOf } from './contents.ts'
import { escaped, type Rendered, render } from './render.ts'
import { type Searched, searchOptions } from './search-options.ts'

interface Document extends Rendered {
  readonly path: string
}

interface Shelf {
  readonly title: string
  readonly documents: readonly Document[]
}

const leadUnitsMax = 160
const root = programFile('')
const pathOf = (name: string) => programFile(`src/manual/${name}`)

/** The paths of a chapter, folders as all of their documents. */
const pathsOf = (paths: readonly string[]): readonly string[] =>
  paths.flatMap((path) =>
    path.endsWith('/') ? [...new Bun.Glob(`${path}**/*.md`).scanSync({ cwd: root })].sort() : [path],
  )

/** The paths of all documents of the manual. */
export const manualPaths = (): readonly string[] => chapters.flatMap(({ paths }) => pathsOf(paths))

function shelves(): readonly Shelf[] {
  const documents = new Set(manualPaths())
  const read = (path: string): Document => ({
    path,
    ...render(path, readFileSync(join(root, path), 'utf8'), documents),
  })
  return chapters.map(({ title, paths }) => ({ title, documents: pathsOf(paths).map(read) }))
}

const linkTo = ({ path, title }: Document, current: string) =>
  `<li><a href="${addressOf(path)}"${path === current ? ' aria-current="page"' : ''}>${escaped(title)}</a></li>`

const listOf = ({ title, documents }: Shelf, current: string) =>
  `<h2>${escaped(title)}</h2><ul>${documents.map((each) => linkTo(each, current)).join('')}</ul>`

/** Decisions and guides are many: beside the text stands the list of the chapter that is read, and of the short ones. */
const longListFrom = 12
function contents(all: readonly Shelf[], current: string): string {
  const isShown = ({ documents }: Shelf) =>
    documents.length < longListFrom || documents.some(({ path }) => path === current)
  return all
    .map((shelf) => (isShown(shelf) ? listOf(shelf, current) : `<h2><a href="/docs">${escaped(shelf.title)}</a></h2>`))
    .join('')
}

const headingsOf = ({ headings }: Rendered) =>
  headings.length < 3
    ? ''
    : `<details><summary>On this page</summary><ul>${headings
        .map(({ anchor, html }) => `<li><a href="#${escaped(anchor)}">${html}</a></li>`)
        .join('')}</ul></details>`

const start = (all: readonly Shelf[]) => `<h1>Documents</h1>
<p>The <a href="/docs/api">API documentation</a> describes every route of this gateway and lets you try each call. Every error has a
code, and <a href="/docs/errors">Error codes</a> says what each means and who can mend it.</p>
<div class="cards">${all.map((shelf) => `<section>${listOf(shelf, '')}</section>`).join('')}</div>`

function indexOf(all: readonly Shelf[]): string {
  const index = new MiniSearch<Searched>(searchOptions)
  for (const { documents } of all) {
    for (const { path, title, sections } of documents) {
      for (const { anchor, heading, text } of sections) {
        if (heading === '' && text === '') continue
        const id = anchor === '' ? addressOf(path) : `${addressOf(path)}#${anchor}`
        index.add({ id, page: title, heading: heading || title, text, lead: text.slice(0, leadUnitsMax) })
      }
    }
  }
  return JSON.stringify(index)
}

/** As a tab of the browser shows it. */
const titleOf = (page: string) =>
  page === productTitle ? escaped(page) : `${escaped(page)} – ${escaped(productTitle)}`

/** The pages of all documents, by their names below `/docs/`, with their script, style and index for the search. */
export async function makeManual(): Promise<Files> {
  const all = shelves()
  const index = indexOf(all)
  const indexName = `search-${Bun.hash(index).toString(36)}.json`
  const files = new Map(
    await bundlePage({
      entries: [pathOf('search.ts'), pathOf('page.css')],
      html: pathOf('page.html'),
      values: { product: productTitle },
    }),
  )
  const template = new TextDecoder().decode(files.get('index.html'))
  const encoder = new TextEncoder()
  const put = (name: string, current: string, values: Readonly<Record<'title' | 'headings' | 'body', string>>) => {
    const filled: Readonly<Record<string, string>> = { ...values, index: indexName, contents: contents(all, current) }
    files.set(name, encoder.encode(template.replaceAll(/\{\{(\w+)\}\}/g, (_, field: string) => filled[field] ?? '')))
  }
  for (const document of all.flatMap(({ documents }) => documents)) {
    const title = titleOf(document.title)
    put(`${nameOf(document.path)}.html`, document.path, { title, headings: headingsOf(document), body: document.html })
  }
  put('index.html', '', { title: titleOf('Documents'), headings: '', body: start(all) })
  files.set(indexName, encoder.encode(index))
  return files
}
