import { brand } from '../../brand.ts'
import { embeddedFolder, programFile } from '../../host/program-files.ts'
import { strategyNames } from '../../machines/mixture/strategies/registry.ts'

export interface PageFile {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly type: string
}

/** The files of the operators' console. They are made at the first request and then kept. */
export interface ConsolePage {
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
}
const typeOf = (name: string) => types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream'

const page = 'index.html'

/** All files of the page by name, from this checkout; `index.html` with the names of the others and of the brand filled in. */
export async function bundleConsole(): Promise<ReadonlyMap<string, Uint8Array<ArrayBuffer>>> {
  const made = await Bun.build({
    entrypoints: [pathOf('main.tsx'), pathOf('console.css')],
    target: 'browser',
    format: 'esm',
    minify: true,
    naming: '[name]-[hash].[ext]',
    define: { 'process.env.NODE_ENV': '"production"' },
  })
  if (!made.success) throw new Error('the console was not built')
  const files = new Map<string, Uint8Array<ArrayBuffer>>()
  for (const output of made.outputs) {
    files.set(output.path.split('/').at(-1) ?? '', new Uint8Array(await output.arrayBuffer()))
  }
  const named = (ending: string) => [...files.keys()].find((name) => name.endsWith(ending)) ?? ''
  const values: Readonly<Record<string, string>> = {
    brand,
    strategies: strategyNames.join(' '),
    js: named('.js'),
    css: named('.css'),
  }
  const template = await Bun.file(pathOf(page)).text()
  files.set(page, new TextEncoder().encode(template.replaceAll(/%(\w+)%/g, (_, name: string) => values[name] ?? '')))
  files.set('icon.svg', await Bun.file(pathOf('icon.svg')).bytes())
  return files
}

async function filesOfConsole(): ReturnType<typeof bundleConsole> {
  const built = embeddedFolder(builtConsole)
  if (built.size === 0) return bundleConsole()
  const read = [...built].map(async ([name, file]) => [name, await Bun.file(file).bytes()] as const)
  return new Map(await Promise.all(read))
}

export function createConsolePage(): ConsolePage {
  let building: ReturnType<typeof bundleConsole> | null = null
  const file = async (name: string): Promise<PageFile | null> => {
    building ??= filesOfConsole().catch((error: unknown) => {
      building = null
      throw error
    })
    const bytes = (await building).get(name)
    return bytes === undefined ? null : { bytes, type: typeOf(name) }
  }
  return {
    html: async () => {
      const html = await file(page)
      if (html === null) throw new Error('the console has no page')
      return html
    },
    asset: (name) => (name === page ? Promise.resolve(null) : file(name)),
  }
}
