import { fileURLToPath } from 'node:url'
import { brand } from '../brand.ts'
import { strategyNames } from '../machines/mixture/strategies/registry.ts'

export interface PageFile {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly type: string
}

/** The operators' console as files: made from this checkout when somebody first asks, and kept. */
export interface ConsolePage {
  html(): Promise<PageFile>
  /** By its name, which holds a hash of what is in it; null: there is no such file. */
  asset(name: string): Promise<PageFile | null>
}

const folder = new URL('../console/', import.meta.url)
const pathOf = (name: string) => fileURLToPath(new URL(name, folder))
const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}
const typeOf = (name: string) => types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream'

interface BuiltPage {
  readonly html: PageFile
  readonly assets: ReadonlyMap<string, PageFile>
}

async function build(): Promise<BuiltPage> {
  const made = await Bun.build({
    entrypoints: [pathOf('main.tsx'), pathOf('console.css')],
    target: 'browser',
    format: 'esm',
    minify: true,
    naming: '[name]-[hash].[ext]',
    define: { 'process.env.NODE_ENV': '"production"' },
  })
  if (!made.success) throw new Error('the console was not built')
  const assets = new Map<string, PageFile>()
  for (const output of made.outputs) {
    const name = output.path.split('/').at(-1) ?? ''
    assets.set(name, { bytes: new Uint8Array(await output.arrayBuffer()), type: typeOf(name) })
  }
  assets.set('icon.svg', { bytes: await Bun.file(pathOf('icon.svg')).bytes(), type: typeOf('icon.svg') })
  const named = (ending: string) => [...assets.keys()].find((name) => name.endsWith(ending)) ?? ''
  const values: Readonly<Record<string, string>> = {
    brand,
    strategies: strategyNames.join(' '),
    js: named('.js'),
    css: named('.css'),
  }
  const template = await Bun.file(pathOf('index.html')).text()
  const html = template.replaceAll(/%(\w+)%/g, (_, name: string) => values[name] ?? '')
  return { assets, html: { bytes: new TextEncoder().encode(html), type: 'text/html; charset=utf-8' } }
}

export function createConsolePage(): ConsolePage {
  let building: Promise<BuiltPage> | null = null
  const built = () => {
    building ??= build().catch((error: unknown) => {
      building = null
      throw error
    })
    return building
  }
  return {
    html: async () => (await built()).html,
    asset: async (name) => (await built()).assets.get(name) ?? null,
  }
}
