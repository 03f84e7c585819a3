import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BunPlugin } from 'bun'
import { dependencies, description, license, name, optionalDependencies, version } from '../../package.json'
import { type ArchivedFile, gzip, tar } from './archives.ts'
import { type BuiltFiles, root } from './built-files.ts'

/** Beside the program in the package. */
const filesFolder = 'files'

/** In the package the files lie beside the program, under their own paths. */
function beside(files: BuiltFiles): BunPlugin {
  const paths = JSON.stringify([...files.keys()])
  return {
    name: 'files-beside',
    setup(build) {
      build.onLoad({ filter: /[/\\]src[/\\]host[/\\]embedded-files\.ts$/ }, () => ({
        contents: `import { join } from 'node:path'
const folder = join(import.meta.dir, '..', '${filesFolder}')
export const embeddedFiles = Object.fromEntries(${paths}.map((path) => [path, join(folder, path)]))`,
        loader: 'js',
      }))
    },
  }
}

async function bundle(entry: string, target: 'bun' | 'browser', plugins: BunPlugin[] = []): Promise<Uint8Array> {
  const made = await Bun.build({
    entrypoints: [join(root, entry)],
    root,
    target,
    format: 'esm',
    plugins,
    // Names and lines stay: a fault on somebody's machine must be one that can be read.
    minify: { whitespace: true },
  })
  const [output] = made.outputs
  if (!made.success || output === undefined) throw new AggregateError(made.logs, `${entry} was not bundled`)
  return new Uint8Array(await output.arrayBuffer())
}

/** What the package says of itself: that of the checkout is private, and names what development needs. */
const manifest = {
  name,
  version,
  description,
  license,
  type: 'module',
  bin: { penstock: 'bin/penstock.mjs' },
  exports: { './client': './dist/client.mjs', './attestation': './dist/attestation.mjs' },
  engines: { node: '>=20' },
  dependencies: { bun: dependencies.bun },
  optionalDependencies,
}

const text = (content: string) => new TextEncoder().encode(content)
const own = (path: string) => new Uint8Array(readFileSync(join(root, path)))

/** The package as npm installs it: the program in one file for Bun, the files that it reads, and a launcher for Node. */
export async function npmPackage(files: BuiltFiles): Promise<Uint8Array<ArrayBuffer>> {
  const contents: readonly (readonly [path: string, bytes: Uint8Array])[] = [
    ['package.json', text(`${JSON.stringify(manifest, null, 2)}\n`)],
    ...(['README.md', 'LICENSE', 'CHANGELOG.md'] as const).map((path) => [path, own(path)] as const),
    ['bin/penstock.mjs', own('scripts/release/launcher.mjs')],
    ['bin/run.mjs', own('scripts/run.mjs')],
    // Read in the place of whatever lies in the working folder.
    ['bin/bunfig.toml', text('')],
    ['dist/penstock.mjs', await bundle('src/cli/main.ts', 'bun', [beside(files)])],
    ['dist/client.mjs', await bundle('src/client/private-jobs.ts', 'browser')],
    ['dist/attestation.mjs', await bundle('src/client/attestation/node-judge.ts', 'browser')],
    ...[...files].map(([path, file]) => [`${filesFolder}/${path}`, new Uint8Array(readFileSync(file))] as const),
  ]
  const archived: readonly ArchivedFile[] = contents.map(([path, bytes]) => ({
    path: `package/${path}`,
    bytes,
    mode: path === 'bin/penstock.mjs' ? 0o755 : 0o644,
  }))
  return gzip(tar(archived))
}
