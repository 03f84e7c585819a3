import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { builtAgent, bundleAgent } from '../../src/actors/agents/agent-bundle.ts'
import { builtConsole, bundleConsole, type Files } from '../../src/actors/console/console-page.ts'
import { builtManual } from '../../src/actors/console/manual.ts'
import { builtCharts, drawCharts } from '../../src/actors/console/statecharts.ts'
import { builtVerifyPage, bundleVerifyPage } from '../../src/actors/console/verify-page.ts'
import { packageFile, packagePath } from '../../src/host/program-files.ts'
import { makeManual } from '../../src/manual/make.ts'

export const root = resolve(import.meta.dir, '../..')
/** Always the same folder, since its name enters the source map; two builds at once write the same bytes. */
const made = join(root, '.run/built')
const swaggerFiles = ['swagger-ui-bundle.js', 'swagger-ui.css', 'favicon-32x32.png']
/** What the program reads while it runs (`src/host/program-files.ts`), besides its code. */
const filePatterns = [
  'src/db/migrations/**/*.{sql,json,gz}',
  'src/http/docs/*.{html,js,css}',
  'docs/images/**/*.{png,svg}',
  'contracts/PayoutSettlementV2.json',
]

/** What the program makes from a checkout when somebody first asks: made here, since a built one holds no checkout. */
async function madeFiles(): Promise<readonly (readonly [string, string])[]> {
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
    const file = join(made, path)
    mkdirSync(dirname(file), { recursive: true })
    const beside = `${file}.${process.pid}`
    writeFileSync(beside, content)
    renameSync(beside, file)
    return [path, file]
  })
}

/** Path in the program → file on this disk. */
export type BuiltFiles = ReadonlyMap<string, string>

/** Makes the files that a built program reads. */
export async function builtFiles(): Promise<BuiltFiles> {
  const own = filePatterns.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync({ cwd: root })])
  return new Map([
    ...(await madeFiles()),
    ...own.sort().map((path) => [path, join(root, path)] as const),
    ...swaggerFiles.map(
      (file) => [packagePath('swagger-ui-dist', file), packageFile('swagger-ui-dist', file)] as const,
    ),
  ])
}
