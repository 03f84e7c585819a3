import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import type { BunPlugin } from 'bun'
import { builtAgent, bundleAgent } from '../src/actors/agents/agent-bundle.ts'
import { builtConsole, bundleConsole, type Files } from '../src/actors/console/console-page.ts'
import { builtManual } from '../src/actors/console/manual.ts'
import { builtCharts, drawCharts } from '../src/actors/console/statecharts.ts'
import { builtVerifyPage, bundleVerifyPage } from '../src/actors/console/verify-page.ts'
import { packageFile, packagePath } from '../src/host/program-files.ts'
import { makeManual } from '../src/manual/make.ts'

/**
 * Makes the whole program one executable file, `dist/penstock`, that needs neither Node nor Bun nor a node_modules:
 * `dist/penstock serve` with `DATABASE_URL`, and every other command. An executable and not one `.mjs`: the Bun that runs
 * it is then the one it was tested with. Usage: `npm run build [-- --target bun-linux-arm64] [--out FILE]`.
 */
const root = resolve(import.meta.dir, '..')
const swaggerFiles = ['swagger-ui-bundle.js', 'swagger-ui.css', 'favicon-32x32.png']
/** What the program reads while it runs (`src/host/program-files.ts`), besides its code. */
const filePatterns = [
  'src/db/migrations/**/*.{sql,json,gz}',
  'src/http/docs/*.{html,js,css}',
  'docs/images/**/*.{png,svg}',
  'contracts/PayoutSettlementV2.json',
]

function option(name: string): string | null {
  const at = process.argv.indexOf(name)
  return at === -1 ? null : (process.argv[at + 1] ?? null)
}

/** What the program makes from a checkout when somebody first asks: made here, since the one file holds no checkout. */
async function madeFiles(work: string): Promise<readonly (readonly [string, string])[]> {
  const within = (folder: string, files: Files) =>
    [...files].map(([name, bytes]) => [`${folder}/${name}`, bytes] as const)
  const files: readonly (readonly [string, string | Uint8Array])[] = [
    [builtAgent, await bundleAgent()],
    [builtCharts, JSON.stringify(await drawCharts())],
    ...within(builtConsole, await bundleConsole()),
    ...within(builtVerifyPage, await bundleVerifyPage()),
    ...within(builtManual, await makeManual()),
  ]
  return files.map(([path, content]) => {
    const file = join(work, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    return [path, file]
  })
}

/** Path in the program → file on this disk. */
async function filesOf(work: string): Promise<ReadonlyMap<string, string>> {
  const own = filePatterns.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync({ cwd: root })])
  return new Map([
    ...(await madeFiles(work)),
    ...own.sort().map((path) => [path, join(root, path)] as const),
    ...swaggerFiles.map(
      (file) => [packagePath('swagger-ui-dist', file), packageFile('swagger-ui-dist', file)] as const,
    ),
  ])
}

function embed(files: ReadonlyMap<string, string>): BunPlugin {
  const named = [...files].map(([path, file], at) => ({ path, file, name: `file${at}` }))
  const imports = named.map(({ file, name }) => `import ${name} from ${JSON.stringify(file)} with { type: 'file' }`)
  const entries = named.map(({ path, name }) => `${JSON.stringify(path)}: ${name}`)
  return {
    name: 'embedded-files',
    setup(build) {
      build.onLoad({ filter: /[/\\]src[/\\]host[/\\]embedded-files\.ts$/ }, () => ({
        contents: `${imports.join('\n')}\nexport const embeddedFiles = { ${entries.join(', ')} }`,
        loader: 'js',
      }))
    },
  }
}

const outfile = resolve(option('--out') ?? join(root, 'dist/penstock'))
const target = option('--target')
const work = join(root, '.run', `build-${process.pid}`)
mkdirSync(work, { recursive: true })
try {
  const made = await Bun.build({
    entrypoints: [join(root, 'src/cli/main.ts')],
    plugins: [embed(await filesOf(work))],
    // Names and lines stay: a fault on somebody's machine must be one that can be read.
    minify: { whitespace: true },
    sourcemap: 'inline',
    compile: {
      outfile,
      ...(target === null ? {} : { target: target as Bun.Build.CompileTarget }),
      // What lies in the working folder is somebody else's.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  })
  if (!made.success) throw new AggregateError(made.logs, 'the program was not built')
  // The map is inside, too.
  rmSync(`${outfile}.map`, { force: true })
} finally {
  rmSync(work, { recursive: true, force: true })
}
process.stdout.write(`${relative(process.cwd(), outfile)}: ${Math.round(statSync(outfile).size / 1e6)} MB\n`)
