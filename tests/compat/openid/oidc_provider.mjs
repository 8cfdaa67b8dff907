// oidc-provider with one client and three people: `node oidc_provider.mjs PORT REDIRECT-ADDRESS SECRET`.
// Claims of a scope are in the user info alone, as OpenID Connect says for the code flow.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [port, redirect, secret] = process.argv.slice(2);
const found = createRequire(`${process.cwd()}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found));
const groups = { ada: ['kafka-admins', 'staff'], ben: ['kafka-readers'], eve: ['staff'] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'highwater', client_secret: secret, redirect_uris: [redirect] }],
  claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  pkce: { required: () => true, methods: ['S256'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id, groups: groups[id] }) }),
});
provider.listen(Number(port), '127.0.0.1');
