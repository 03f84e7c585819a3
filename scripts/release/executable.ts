import { rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { BunPlugin } from 'bun'
import { type BuiltFiles, root } from './built-files.ts'

/** Names each file by its place in the checkout: where that lies on this disk must not enter the executable or its source map. */
function embed(files: BuiltFiles): BunPlugin {
  const named = [...files].map(([path, file], at) => ({ path, file, name: `file${at}` }))
  const imports = named.map(({ file, name }) => {
    const place = `../../${relative(root, file)}`
    return `import ${name} from ${JSON.stringify(place)} with { type: 'file' }`
  })
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

export interface ExecutableOptions {
  readonly files: BuiltFiles
  readonly outfile: string
  /** As Bun names a platform, `bun-linux-arm64`; null: this one. */
  readonly target: string | null
  /** The Bun of that platform; null: Bun looks for it. */
  readonly runtime: string | null
}

/** Makes the whole program one executable file. Throws where it cannot be built. */
export async function buildExecutable({ files, outfile, target, runtime }: ExecutableOptions): Promise<void> {
  const made = await Bun.build({
    entrypoints: [join(root, 'src/cli/main.ts')],
    root,
    plugins: [embed(files)],
    // Names and lines stay: a fault on somebody's machine must be one that can be read.
    minify: { whitespace: true },
    sourcemap: 'inline',
    compile: {
      outfile,
      ...(target === null ? {} : { target: target as Bun.Build.CompileTarget }),
      ...(runtime === null ? {} : { executablePath: runtime }),
      // What lies in the working folder is somebody else's.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  })
  if (!made.success) throw new AggregateError(made.logs, 'the program was not built')
  // The map is inside, too.
  rmSync(`${outfile}.map`, { force: true })
}
