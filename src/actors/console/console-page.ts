import type { BunPlugin } from 'bun'
import { brand } from '../../brand.ts'
import { embeddedFolder, programFile } from '../../host/program-files.ts'
import { strategyNames } from '../../machines/mixture/strategies/registry.ts'

export interface PageFile {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly type: string
}

/** The files of one page. They are made at the first request and then kept. */
export interface PageFiles {
  html(): Promise<PageFile>
  /** Finds a file by its name, which contains a hash of its content. Returns null if there is no such file. */
  asset(name: string): Promise<PageFile | null>
}

const pathOf = (name: string) => programFile(`src/console/${name}`)
/** The folder in a built program, which contains the files already. */
export const builtConsole = 'console'
const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json',
}
const typeOf = (name: string) => types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream'

const page = 'index.html'

export type Files = ReadonlyMap<string, Uint8Array<ArrayBuffer>>

export interface PageSource {
  /** Scripts and styles, by their paths. */
  readonly entries: readonly string[]
  readonly html: string
  /** Filled into the page for `%name%`, beside the names of its script and style. */
  readonly values: Readonly<Record<string, string>>
  /** Files that stand for packages in the page. */
  readonly instead?: Readonly<Record<string, string>>
}

const standIns = (instead: Readonly<Record<string, string>>): BunPlugin => ({
  name: 'stand-ins',
  setup: (build) => {
    for (const [name, path] of Object.entries(instead)) {
      build.onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path }))
    }
  },
})

/** Scripts and styles by name, each with all that it imports. */
async function bundled({ entries, instead = {} }: Pick<PageSource, 'entries' | 'instead'>) {
  const made = await Bun.build({
    entrypoints: [...entries],
    target: 'browser',
    format: 'esm',
    minify: true,
    naming: '[name]-[hash].[ext]',
    define: { 'process.env.NODE_ENV': '"production"' },
    plugins: [standIns(instead)],
  })
  if (!made.success) throw new Error('a page was not built')
  const files = new Map<string, Uint8Array<ArrayBuffer>>()
  for (const output of made.outputs) {
    files.set(output.path.split('/').at(-1) ?? '', new Uint8Array(await output.arrayBuffer()))
  }
  return files
}

/** All files of a page by name, from this checkout. */
export async function bundlePage(source: PageSource): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  const files = await bundled(source)
  const named = (ending: string) => [...files.keys()].find((name) => name.endsWith(ending)) ?? ''
  const values: Readonly<Record<string, string>> = { ...source.values, js: named('.js'), css: named('.css') }
  const template = await Bun.file(source.html).text()
  files.set(page, new TextEncoder().encode(template.replaceAll(/%(\w+)%/g, (_, name: string) => values[name] ?? '')))
  return files
}

export async function bundleConsole(): Promise<Files> {
  // Apart, because only who seals in the browser loads what encrypts.
  const sealing = await bundled({ entries: [programFile('src/client/sealed/sealed-fetch.ts')] })
  const [seal = ''] = sealing.keys()
  const files = await bundlePage({
    entries: [pathOf('main.tsx'), pathOf('console.css')],
    html: pathOf(page),
    values: { brand, strategies: strategyNames.join(' '), seal },
  })
  for (const [name, bytes] of sealing) files.set(name, bytes)
  files.set('icon.svg', await Bun.file(pathOf('icon.svg')).bytes())
  return files
}

async function filesOf(built: string, bundle: () => Promise<Files>): Promise<Files> {
  const embedded = embeddedFolder(built)
  if (embedded.size === 0) return bundle()
  const read = [...embedded].map(async ([name, file]) => [name, await Bun.file(file).bytes()] as const)
  return new Map(await Promise.all(read))
}

/** `built`: the folder in a built program, which has the files already. */
export function createPage(built: string, bundle: () => Promise<Files>): PageFiles {
  let building: Promise<Files> | null = null
  const file = async (name: string): Promise<PageFile | null> => {
    building ??= filesOf(built, bundle).catch((error: unknown) => {
      building = null
      throw error
    })
    const bytes = (await building).get(name)
    return bytes === undefined ? null : { bytes, type: typeOf(name) }
  }
  return {
    html: async () => {
      const html = await file(page)
      if (html === null) throw new Error('a page without its html')
      return html
    },
    asset: (name) => (name === page ? Promise.resolve(null) : file(name)),
  }
}
