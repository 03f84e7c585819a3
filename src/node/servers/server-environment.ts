/** Variables that a program needs to find its files and to choose its language. */
const inheritedNames: ReadonlySet<string> = new Set(['PATH', 'HOME', 'LANG', 'TMPDIR'])
/** Which graphics cards there are and how they are used: NVIDIA's, AMD's, llama.cpp's. */
const inheritedPrefixes = ['CUDA_', 'HIP_', 'ROCR_', 'GGML_'] as const

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The variables that a model server inherits from the agent. The others may contain keys of a gateway or of a hosted
 * provider, which a program that answers strangers' prompts must not have. `models.json` names the further ones that it
 * needs.
 */
export function inheritedEnvironment(own: Environment): Environment {
  return Object.fromEntries(
    Object.entries(own).filter(
      ([name]) => inheritedNames.has(name) || inheritedPrefixes.some((prefix) => name.startsWith(prefix)),
    ),
  )
}
