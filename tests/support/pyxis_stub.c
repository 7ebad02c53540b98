/* Stands in for pyxis in tests: takes pyxis' options on srun's command line, starts no
 * container, and does to the environment what pyxis does to it.
 *
 * Every option given is shown to the tasks as PYXIS_STUB_<OPTION>. The plugin's argument
 * image_environment=FILE names NAME=VALUE lines that an image would bake: they replace what
 * the job says, unless --container-env lists the name (pyxis 0.24, spank_import_container_env).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

SPANK_PLUGIN(pyxis_stub, 1);

enum { IMAGE, MOUNTS, WORKDIR, ENVIRONMENT, HOME, NO_HOME, ENTRYPOINT, NO_ENTRYPOINT, WRITABLE,
       READONLY, REMAP, NO_REMAP, NAME, SAVE, COUNT };

static struct { const char *name; int takes_value; char *value; } options[COUNT] = {
	[IMAGE] = { "container-image", 1 },
	[MOUNTS] = { "container-mounts", 1 },
	[WORKDIR] = { "container-workdir", 1 },
	[ENVIRONMENT] = { "container-env", 1 },
	[HOME] = { "container-mount-home", 0 },
	[NO_HOME] = { "no-container-mount-home", 0 },
	[ENTRYPOINT] = { "container-entrypoint", 0 },
	[NO_ENTRYPOINT] = { "no-container-entrypoint", 0 },
	[WRITABLE] = { "container-writable", 0 },
	[READONLY] = { "container-readonly", 0 },
	[REMAP] = { "container-remap-root", 0 },
	[NO_REMAP] = { "no-container-remap-root", 0 },
	[NAME] = { "container-name", 1 },
	[SAVE] = { "container-save", 1 },
};

static int given(int index, const char *value, int remote)
{
	(void) remote;
	if (options[index].takes_value && (value == NULL || *value == '\0')) {
		slurm_error("pyxis_stub: --%s: argument required", options[index].name);
		return ESPANK_BAD_ARG;
	}
	free(options[index].value);
	options[index].value = strdup(value != NULL ? value : "yes");
	return ESPANK_SUCCESS;
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	(void) argc;
	(void) argv;
	for (int i = 0; i < COUNT; i++) {
		struct spank_option option = {
			.name = (char *) options[i].name,
			.arginfo = options[i].takes_value ? "VALUE" : NULL,
			.usage = "stand-in for the option of pyxis",
			.has_arg = options[i].takes_value,
			.val = i,
			.cb = given,
		};
		if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
			return ESPANK_ERROR;
	}
	return ESPANK_SUCCESS;
}

static int listed(const char *name)
{
	const char *rest = options[ENVIRONMENT].value;
	size_t length = strlen(name);

	while (rest != NULL && *rest != '\0') {
		if (strncmp(rest, name, length) == 0 && (rest[length] == ',' || rest[length] == '\0'))
			return 1;
		rest = strchr(rest, ',');
		rest = rest != NULL ? rest + 1 : NULL;
	}
	return 0;
}

static void bake(spank_t spank, const char *path)
{
	char line[4096], *equals;
	FILE *file = fopen(path, "r");

	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		equals = strchr(line, '=');
		if (equals == NULL)
			continue;
		*equals = '\0';
		spank_setenv(spank, line, equals + 1, !listed(line));
	}
	fclose(file);
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	static const char prefix[] = "image_environment=";

	if (options[IMAGE].value == NULL)
		return ESPANK_SUCCESS;
	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], prefix, sizeof(prefix) - 1) == 0)
			bake(spank, argv[i] + sizeof(prefix) - 1);
	for (int i = 0; i < COUNT; i++) {
		char key[64] = "PYXIS_STUB_", *end = key + strlen(key);

		if (options[i].value == NULL)
			continue;
		for (const char *c = options[i].name; *c != '\0'; c++)
			*end++ = *c == '-' ? '_' : toupper((unsigned char) *c);
		*end = '\0';
		spank_setenv(spank, key, options[i].value, 1);
	}
	return ESPANK_SUCCESS;
}
