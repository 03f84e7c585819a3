import { embeddedFile, programFile } from '../../host/program-files.ts'
import { sha256Hex } from '../../secrets.ts'

export interface AgentFile {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** 64 hexadecimal digits. */
  readonly sha256: string
}

/**
 * The node agent as one file that Bun runs by itself (§22): built from this checkout when somebody first asks,
 * and kept. The same sources give the same bytes, so gateways of one version serve one file.
 */
export interface AgentBundle {
  file(): Promise<AgentFile>
}

const agentEntry = programFile('src/cli/agent.ts')
/** The name of the file in a built program, which contains the bundle already. */
export const builtAgent = 'agent.mjs'

export function createAgentBundle(entry = agentEntry): AgentBundle {
  let building: Promise<AgentFile> | null = null
  return {
    file: () => {
      building ??= build(entry).catch((error: unknown) => {
        building = null
        throw error
      })
      return building
    },
  }
}

async function build(entry: string): Promise<AgentFile> {
  const built = embeddedFile(builtAgent)
  const bytes = built === null ? await bundleAgent(entry) : await Bun.file(built).bytes()
  return { bytes, sha256: sha256Hex(bytes) }
}

export async function bundleAgent(entry = agentEntry): Promise<Uint8Array<ArrayBuffer>> {
  // The bundle keeps its names, so that a stack trace from somebody's node can be read.
  const made = await Bun.build({ entrypoints: [entry], target: 'bun', format: 'esm', minify: { whitespace: true } })
  const [output] = made.outputs
  if (!made.success || output === undefined) throw new Error('the agent was not built')
  return new Uint8Array(await output.arrayBuffer())
}
