import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '../../src/console')
const files = [...new Bun.Glob('**/*.{ts,tsx,css}').scanSync({ cwd: root })].sort()
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
/** Lines that have the pattern, outside of the files that may. */
function found(pattern: RegExp, ending: RegExp, may: readonly string[]): readonly string[] {
  return files
    .filter((file) => ending.test(file) && !may.includes(file))
    .flatMap((file) =>
      textOf(file)
        .split('\n')
        .flatMap((line) => (pattern.test(line) ? [`${file}: ${line.trim()}`] : [])),
    )
}

test('colours have names, and stand in one place', () => {
  expect(found(/#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|light-dark)\(/i, /\.css$/, ['styles/base.css'])).toEqual([])
  const [, names = ''] = /:root \{([^}]*)\}/.exec(textOf('styles/base.css')) ?? []
  expect(textOf('styles/base.css').replace(names, '')).not.toMatch(/#[0-9a-f]{3,8}\b|light-dark\(/i)
  // A line of a chart and a tile of a map get their own from their class or their element.
  const defined = new Set(
    files.flatMap((file) => [...textOf(file).matchAll(/(--[a-z0-9-]+)'?:/g)].map(([, name]) => name)),
  )
  const used = files.flatMap((file) => [...textOf(file).matchAll(/var\((--[a-z0-9-]+)\)/g)].map(([, name]) => name))
  expect([...new Set(used)].filter((name) => !defined.has(name))).toEqual([])
})

test('numbers, times and money are written in one place', () => {
  expect(found(/Intl\.|toLocale|\.toFixed\(/, /\.tsx?$/, ['parts/format.ts'])).toEqual([])
})

test('what went wrong is said in one way', () => {
  expect(found(/cannot be reached/, /\.tsx?$/, ['state/api.ts'])).toEqual([])
  expect(found(/class="alert"|class="state-note/, /\.tsx?$/, ['parts/states.tsx'])).toEqual([])
})

test('what is empty says why, and every word ends as a sentence does', () => {
  const texts = files.filter((file) => file.endsWith('.tsx')).map((file) => [file, textOf(file)] as const)
  for (const [file, text] of texts) {
    expect({ file, bare: [...text.matchAll(/<Empty title="[^"]*"\s*\/>/g)].map(([all]) => all) }).toEqual({
      file,
      bare: [],
    })
    for (const [, title = '', words = ''] of text.matchAll(/<Empty title="([^"]*)">([^<{]*)<\/Empty>/g)) {
      expect({ title, ends: /[.!?]$/.test(words.trim()), stop: title.endsWith('.') }).toEqual({
        title,
        ends: true,
        stop: false,
      })
    }
  }
})
