# %% [markdown]
# # 17. The hang clinic
#
# Then mend them: [exercise 17](../exercises/17_hang_clinic/17_hang_clinic.ipynb).

# %% [markdown]
# The lesson is written elsewhere.
