import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Hub } from './hub.ts'
import { hubJson } from './hub-fetch.ts'
import { PullFault } from './pull-fault.ts'

/** `name`, `name:tag` or `space/name:tag`. */
const refForm = /^(?:([\w.-]{1,96})\/)?([\w.-]{1,96})(?::([\w.-]{1,96}))?$/

const Manifest = Type.Object({
  layers: Type.Array(
    Type.Object({
      mediaType: Type.String(),
      digest: Type.String({ pattern: '^sha256:[0-9a-f]{64}$' }),
      size: Type.Integer({ minimum: 1 }),
    }),
    { maxItems: 64 },
  ),
})
const manifestType = 'application/vnd.docker.distribution.manifest.v2+json'
const modelType = 'application/vnd.ollama.image.model'

/** Ollama's library, by the interface of an OCI registry: a manifest, whose one layer is the model. */
export const ollama: Hub = {
  name: 'ollama',
  base: 'https://registry.ollama.ai',
  handsOverTo: ['ollama.ai', 'ollama.com', 'r2.cloudflarestorage.com'],
  tokenVariable: null,
  modelOf: (ref) => ref.replace(/:latest$/, '').replace(/^library\//, ''),
  async find({ ref, base, get }) {
    const [whole, space = 'library', name, tag = 'latest'] = refForm.exec(ref) ?? []
    if (whole === undefined) throw new PullFault('not_found')
    const place = `${base}/v2/${space}/${name}`
    const manifest = await hubJson(await get(`${place}/manifests/${tag}`, { accept: manifestType }))
    if (!Value.Check(Manifest, manifest)) throw new PullFault('hub_malformed')
    const [model, ...more] = manifest.layers.filter(({ mediaType }) => mediaType === modelType)
    if (model === undefined || more.length > 0) throw new PullFault('not_found')
    const { digest, size: bytes } = model
    const file = {
      name: `${name}-${tag}.gguf`,
      url: `${place}/blobs/${digest}`,
      bytes,
      sha256: digest.slice('sha256:'.length),
    }
    return { files: [file] }
  },
}
