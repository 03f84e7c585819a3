import { posix } from 'node:path'
import { Marked, type Token, type Tokens } from 'marked'
import { addressOf } from './contents.ts'

/** A part of a document under one heading, for the search. */
export interface Section {
  /** Empty before the first heading. */
  readonly anchor: string
  readonly heading: string
  readonly text: string
}

export interface Rendered {
  readonly title: string
  readonly html: string
  /** Of the second level, for the list at the top of a page. */
  readonly headings: readonly { readonly anchor: string; readonly html: string }[]
  readonly sections: readonly Section[]
}

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
export const escaped = (text: string) => text.replaceAll(/[&<>"']/g, (character) => escapes[character] ?? '')

/** As GitHub makes them, so that a link in a document leads to the same place on both. */
function anchors(): (heading: string) => string {
  const seen = new Map<string, number>()
  return (heading) => {
    const plain = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-')
    const before = seen.get(plain) ?? 0
    seen.set(plain, before + 1)
    return before === 0 ? plain : `${plain}-${before}`
  }
}

/** What a person reads of it, without marks. */
function plainOf(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      if ('tokens' in token && Array.isArray(token.tokens)) return plainOf(token.tokens)
      if (token.type === 'table') {
        const { header, rows } = token as Tokens.Table
        return [header, ...rows].map((row) => row.map((cell) => plainOf(cell.tokens)).join(' ')).join(' ')
      }
      if (token.type === 'list') return (token as Tokens.List).items.map(({ tokens: own }) => plainOf(own)).join(' ')
      if (token.type === 'html') return ''
      return 'text' in token ? String(token.text) : ' '
    })
    .join('')
}

/** Where a link of the document at `path` leads; null: to something of the checkout that the gateway does not serve. */
function target(path: string, href: string, documents: ReadonlySet<string>): string | null {
  if (/^(?:https?:|mailto:|#)/.test(href)) return href
  const [file = '', anchor] = href.split('#')
  const to = posix.normalize(posix.join(posix.dirname(path), file))
  const tail = anchor === undefined ? '' : `#${anchor}`
  if (documents.has(to)) return `${addressOf(to)}${tail}`
  if (to === 'docs/decisions') return `${addressOf('docs/architecture.md')}#decisions`
  if (/^docs\/images\/[\w./-]+\.(?:png|svg)$/.test(to)) return `/${to}`
  return null
}

function sectionsOf(tokens: readonly Token[]): readonly Section[] {
  const anchorOf = anchors()
  const sections: { anchor: string; heading: string; text: string }[] = [{ anchor: '', heading: '', text: '' }]
  for (const token of tokens) {
    if (token.type === 'heading') {
      const heading = plainOf((token as Tokens.Heading).tokens)
      sections.push({ anchor: anchorOf(heading), heading, text: '' })
    } else {
      const last = sections.at(-1)
      if (last !== undefined) last.text += `${plainOf([token])} `
    }
  }
  return sections.map(({ text, ...rest }) => ({ ...rest, text: text.replaceAll(/\s+/g, ' ').trim() }))
}

/** `documents`: the paths of all that the manual has. */
export function render(path: string, text: string, documents: ReadonlySet<string>): Rendered {
  const anchorOf = anchors()
  const headings: { anchor: string; html: string }[] = []
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens)
        const anchor = anchorOf(plainOf(tokens))
        if (depth === 2) headings.push({ anchor, html: html.replaceAll(/<\/?a\b[^>]*>/g, '') })
        return `<h${depth} id="${escaped(anchor)}">${html}</h${depth}>\n`
      },
      link({ href, tokens }) {
        const html = this.parser.parseInline(tokens)
        const to = target(path, href, documents)
        return to === null ? html : `<a href="${escaped(to)}">${html}</a>`
      },
      image({ href, text: alternative }) {
        const to = target(path, href, documents)
        return to === null ? '' : `<img src="${escaped(to)}" alt="${escaped(alternative)}" loading="lazy">`
      },
      // Wide ones are scrolled by themselves, also by the keyboard.
      table(token) {
        const row = (cells: readonly Tokens.TableCell[], tag: 'th' | 'td') =>
          `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`
        const named = token.header.some((cell) => cell.text !== '')
        const head = named ? `<thead>${row(token.header, 'th')}</thead>` : ''
        const body = token.rows.map((cells) => row(cells, 'td')).join('')
        return `<div class="wide" tabindex="0" role="group" aria-label="Table"><table>${head}<tbody>${body}</tbody></table></div>\n`
      },
      code({ text: code }) {
        return `<pre tabindex="0"><code>${escaped(code)}</code></pre>\n`
      },
      // A comment of the source says nothing to a reader, and no document needs markup of its own.
      html: () => '',
    },
  })
  const tokens = marked.lexer(text)
  const html = marked.parser(tokens)
  const sections = sectionsOf(tokens)
  return { title: sections.find(({ heading }) => heading !== '')?.heading ?? path, html, headings, sections }
}
